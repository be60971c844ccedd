//! `weft top` as a person has it: in a terminal of 80 columns, with keys.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use weft_e2e::crowd::{Crowd, busy};
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};
use weft_lab::tools;

/// A terminal, which tmux plays; it ends when dropped.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// A shell in 80 by 24 characters.
    fn start(socket: PathBuf) -> Result<Self> {
        let terminal = Self { socket };
        terminal.tmux(&[
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "env PS1='ready> ' sh",
        ])?;
        terminal.wait("ready>")?;
        Ok(terminal)
    }

    fn tmux(&self, args: &[&str]) -> Result<String> {
        let output = std::process::Command::new("tmux")
            .arg("-f/dev/null")
            .arg("-S")
            .arg(&self.socket)
            .args(args)
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .output()?;
        ensure!(output.status.success(), "tmux {args:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn press(&self, keys: &[&str]) -> Result {
        self.tmux(&[&["send-keys"], keys].concat())?;
        Ok(())
    }

    fn screen(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Keeps the screen with its colours as `NAME.ansi` in the folder `WEFT_SCREENSHOTS`, if there is one.
    fn keep(&self, name: &str) -> Result {
        if let Some(folder) = std::env::var_os("WEFT_SCREENSHOTS") {
            let file = PathBuf::from(folder).join(format!("{name}.ansi"));
            std::fs::write(file, self.tmux(&["capture-pane", "-p", "-e"])?)?;
        }
        Ok(())
    }

    fn wait(&self, text: &str) -> Result<String> {
        eventually(LONG, || {
            let screen = self.screen()?;
            ensure!(screen.contains(text), "no {text:?} in\n{screen}");
            Ok(screen)
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

#[test]
fn it_shows_what_happens_and_leaves_the_terminal_as_it_was() -> Result {
    let dir = tempfile::tempdir()?;
    let socket = dir.path().join("agent.sock");
    let _crowd = Crowd::start(&socket, |since| busy(30, 200, since))?;
    let terminal = Terminal::start(dir.path().join("tmux"))?;
    let top = format!(
        "{} top --agent {}",
        tools::weft()?.display(),
        socket.display()
    );
    let began = |terminal: &Terminal| {
        terminal.press(&["-l", &format!("clear; {top}")])?;
        terminal.press(&["Enter"])?;
        terminal.wait("q quit")
    };
    began(&terminal)?;
    let screen = terminal.wait("team-03/service-027")?;
    let lines: Vec<&str> = screen.lines().collect();
    ensure!(lines[0].starts_with("weft top   1 services"), "{screen}");
    ensure!(
        lines[1].starts_with("SERVICE") && lines[1].ends_with("DENIED/S"),
        "{screen}"
    );
    ensure!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{screen}"
    );

    terminal.wait("µs")?;
    // By the last column: what was refused most comes first.
    terminal.press(&["Left", "Left", "Down"])?;
    terminal.wait(": refused ")?;
    terminal.keep("top")?;
    terminal.press(&["3"])?;
    terminal.wait("FROM > TO")?;
    terminal.press(&["/"])?;
    terminal.press(&["-l", "027 >"])?;
    terminal.press(&["Enter"])?;
    let screen = terminal.wait("only \"027 >\"")?;
    let rows = screen.lines().filter(|line| line.contains("team-")).count();
    ensure!(
        rows > 0
            && screen
                .lines()
                .skip(2)
                .take(rows)
                .all(|l| l.contains("027 >")),
        "{screen}"
    );
    terminal.press(&["Escape"])?;
    terminal.press(&["p"])?;
    terminal.wait("PAUSED")?;
    terminal.press(&["?"])?;
    terminal.wait("any key goes back")?;
    terminal.press(&["x"])?;
    terminal.press(&["q"])?;
    let screen = terminal.wait("ready>")?;
    ensure!(
        !screen.contains("q quit"),
        "the screen is not given back: {screen}"
    );

    // Another one, which is told to end.
    began(&terminal)?;
    let pid = terminal.tmux(&["display-message", "-p", "#{pane_pid}"])?;
    let children = format!("/proc/{0}/task/{0}/children", pid.trim());
    let child = std::fs::read_to_string(children)?;
    let child: i32 = child.trim().parse().context("no weft top")?;
    let child = rustix::process::Pid::from_raw(child).context("no pid")?;
    rustix::process::kill_process(child, rustix::process::Signal::TERM)?;
    terminal.wait("ready>")?;
    // Echo and line editing are back: what is typed is seen and runs.
    terminal.press(&["-l", "echo $((6 * 7)) is back"])?;
    terminal.press(&["Enter"])?;
    terminal.wait("42 is back")?;
    Ok(())
}

#[test]
fn without_a_terminal_it_prints_tables() -> Result {
    let dir = tempfile::tempdir()?;
    let socket = dir.path().join("agent.sock");
    let _crowd = Crowd::start(&socket, |since| busy(30, 200, since))?;
    let top = |args: &[&str]| {
        let mut command = std::process::Command::new(tools::weft()?);
        command.args(["top", "--agent"]).arg(&socket).args(args);
        let output = command.output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let text = top(&[])?;
    for title in ["SERVICE ", "WORKLOAD ", "FROM > TO "] {
        ensure!(text.lines().any(|l| l.starts_with(title)), "{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&top(&["-o", "json"])?)?;
    let seconds = json["seconds"].as_f64().context("no time")?;
    ensure!(seconds >= 0.9, "{seconds}");
    let row = json["connections"].as_array().context("no rows")?.first();
    let row = row.context("no row")?;
    ensure!(row["opened"].as_f64().unwrap_or_default() > 0.0, "{row}");
    ensure!(
        row["rttUs"]["p50"].as_f64().unwrap_or_default() > 0.0,
        "{row}"
    );

    let nobody = std::process::Command::new(tools::weft()?)
        .args(["top", "--once", "--agent"])
        .arg(dir.path().join("nowhere"))
        .output()?;
    ensure!(nobody.status.code() == Some(1), "{nobody:?}");
    let said = String::from_utf8(nobody.stderr)?;
    ensure!(said.contains("no agent runs on"), "{said}");
    Ok(())
}
