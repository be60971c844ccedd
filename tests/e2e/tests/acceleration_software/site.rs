//! Two pods for a server and its client, and the three ways to connect them.

use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use tempfile::TempDir;
use weft_e2e::Result;
use weft_e2e::accel::Pair;
use weft_e2e::wait::{LONG, eventually};
use weft_lab::{Launch, Output, Pod, Process};

/// Port of every server.
pub(crate) const PORT: u16 = 8080;
/// Nothing here takes so long, also on a machine that does much else.
pub(crate) const WITHIN: Duration = Duration::from_secs(120);
/// `O_NONBLOCK` in `/proc/PID/fdinfo/FD`, octal.
const NONBLOCK: u32 = 0o4000;

/// Whether the client's sockets are ones that `auto` accelerates. Whether the server's are is seen in /proc.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Polling {
    /// They do not block from their beginning.
    Always,
    /// They block, at least while they connect.
    Not,
}

/// A server and a client, in a lab of their own.
pub(crate) struct Site {
    pair: Pair,
    mode: &'static str,
    /// Of the server and the client; gone with the site.
    pub(crate) folder: TempDir,
}

/// Does `work` without acceleration and with it, and compares what comes out. `work` starts the server; its answer must not hang on time.
pub(crate) fn compare<A: PartialEq + Debug>(
    polling: Polling,
    work: impl Fn(&Site) -> Result<(Process, A)>,
) -> Result {
    let mut expected = None;
    for mode in ["off", "auto", "eager"] {
        let answer = Site::observe(mode, polling, &work).with_context(|| mode.to_owned())?;
        let expected = expected.get_or_insert_with(|| None);
        match expected {
            None => *expected = Some(answer),
            Some(over_tcp) => ensure!(answer == *over_tcp, "{mode}: {answer:?}, not {over_tcp:?}"),
        }
    }
    Ok(())
}

impl Site {
    fn observe<A>(
        mode: &'static str,
        polling: Polling,
        work: impl Fn(&Self) -> Result<(Process, A)>,
    ) -> Result<A> {
        let mut site = Self {
            pair: Pair::start(&["--acceleration", mode])?,
            mode,
            folder: tempfile::tempdir()?,
        };
        if mode != "off" {
            site.pair.wait_accelerated()?;
        }
        let before = site.counts()?;
        let (server, answer) = work(&site)?;
        let after = site.counts()?;
        let (pairs, bytes) = (after.0 - before.0, after.1 - before.1);
        let polls = polling == Polling::Always && listener_polls(server.pid())?;
        eprintln!(
            "{mode}: {pairs} pairs, {bytes} bytes accelerated: {}",
            server.command()
        );
        let wanted = match mode {
            "auto" => polls,
            mode => mode == "eager",
        };
        match wanted {
            true => ensure!(bytes > 0, "{pairs} pairs, but no byte was accelerated"),
            false => ensure!(
                pairs == 0 && bytes == 0,
                "{pairs} pairs of sockets that block, {bytes} bytes"
            ),
        }
        Ok(answer)
    }

    /// Pairs and bytes so far.
    fn counts(&mut self) -> Result<(u64, u64)> {
        if self.mode == "off" {
            return Ok((0, 0));
        }
        let pairs = self.pair.count("accelerated_pairs")?;
        Ok((pairs, self.pair.count("accelerated_bytes")?))
    }

    /// The server's pod.
    pub(crate) fn server(&self) -> Result<Pod> {
        self.pair.mesh.pod("server")
    }

    /// The client's pod.
    pub(crate) fn client(&self) -> Result<Pod> {
        self.pair.mesh.pod("client")
    }

    /// Address of the server, for command lines.
    pub(crate) fn host(&self) -> Result<String> {
        Ok(self.server()?.addresses().v4.to_string())
    }

    /// Starts a program in the server's pod and waits until it listens.
    pub(crate) fn serve(&self, command: Launch) -> Result<Process> {
        let server = command.spawn()?;
        eventually(LONG, || {
            ensure!(
                server.is_running(),
                "has ended: {}{}",
                server.stdout(),
                server.stderr()
            );
            listening(server.pid())?.context("does not listen yet")
        })
        .with_context(|| server.command().to_owned())?;
        Ok(server)
    }

    /// Runs a program in the client's pod, which has to succeed.
    pub(crate) fn ask(&self, program: &str, args: &[&str]) -> Result<Output> {
        Ok(self
            .client()?
            .command(program)
            .args(args)
            .run(WITHIN)?
            .success()?)
    }
}

/// SHA-256 of a file.
pub(crate) fn checksum(site: &Site, file: &Path) -> Result<String> {
    let said = site
        .client()?
        .command("sha256sum")
        .arg(file)
        .run(WITHIN)?
        .success()?
        .stdout;
    Ok(said.split(' ').next().unwrap_or_default().to_owned())
}

/// Whether the listener at [`PORT`] has `O_NONBLOCK`.
fn listener_polls(pid: u32) -> Result<bool> {
    let flags = listening(pid)?.context("nobody listens any more")?;
    Ok(flags & NONBLOCK != 0)
}

/// Flags of the descriptor on which this process listens at [`PORT`].
fn listening(pid: u32) -> Result<Option<u32>> {
    let process = Path::new("/proc").join(pid.to_string());
    let mut inodes = Vec::new();
    for table in ["net/tcp", "net/tcp6"] {
        let text = fs::read_to_string(process.join(table))?;
        let inode = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let port = format!(":{PORT:04X}");
            let [_, local, _, "0A", ..] = fields[..] else {
                return None;
            };
            local
                .ends_with(&port)
                .then(|| fields.get(9).map(|i| (*i).to_owned()))?
        };
        inodes.extend(text.lines().filter_map(inode));
    }
    for entry in fs::read_dir(process.join("fd"))?.flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        if inodes
            .iter()
            .any(|inode| target == format!("socket:[{inode}]"))
        {
            let info = fs::read_to_string(process.join("fdinfo").join(entry.file_name()))?;
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            return Ok(Some(u32::from_str_radix(
                flags.context("no flags")?.trim(),
                8,
            )?));
        }
    }
    Ok(None)
}
