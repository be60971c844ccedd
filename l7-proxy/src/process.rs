//! One run of Envoy, from start to end.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use crate::log;

/// How to start Envoy.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Words before Envoy's own: a program that makes its process end with the agent and then becomes Envoy.
    pub(crate) launcher: Vec<PathBuf>,
    pub(crate) envoy: PathBuf,
    pub(crate) config: PathBuf,
}

/// A running Envoy.
pub(crate) struct Process {
    pid: Pid,
    ended: oneshot::Receiver<io::Result<ExitStatus>>,
}

impl Process {
    /// Starts it, on a thread that stays until it has ended: the kernel ends the child with the thread that made it.
    pub(crate) async fn start(plan: Plan) -> io::Result<Self> {
        let (started, start) = oneshot::channel();
        let (finished, ended) = oneshot::channel();
        thread::Builder::new()
            .name("weft-envoy".to_owned())
            .spawn(move || run(&plan, started, finished))?;
        let pid = start.await.map_err(io::Error::other)??;
        Ok(Self { pid, ended })
    }

    /// Waits for its end. May be called again after it was cancelled.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        (&mut self.ended).await.map_err(io::Error::other)?
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended meanwhile; it is not reaped before its thread sees that, so the number is nobody else's.
        let _ = kill_process(self.pid, signal);
    }

    pub(crate) const fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }
}

fn command(plan: &Plan) -> Command {
    let mut words = plan
        .launcher
        .iter()
        .map(PathBuf::as_path)
        .chain([plan.envoy.as_path()]);
    let first = words.next().unwrap_or(Path::new("envoy"));
    let mut command = Command::new(first);
    command
        // Of the agent, and nothing to the launcher.
        .env_remove("WEFT_CONFIG")
        .args(words)
        .arg("--config-path")
        .arg(&plan.config)
        .args(["--reject-unknown-dynamic-fields", "--disable-hot-restart"])
        .args(["--log-level", "info", "--log-format", log::FORMAT])
        // Short: nobody waits for the end of a drain but this agent.
        .args(["--drain-time-s", "5", "--parent-shutdown-time-s", "10"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

type Ended = oneshot::Sender<io::Result<ExitStatus>>;

fn run(plan: &Plan, started: oneshot::Sender<io::Result<Pid>>, finished: Ended) {
    let mut child = match command(plan).spawn() {
        Ok(child) => child,
        Err(e) => {
            let _ = started.send(Err(e));
            return;
        }
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _ = started.send(pid.ok_or_else(|| io::Error::other("a process without a number")));
    if let Some(stderr) = child.stderr.take() {
        log::record(stderr);
    }
    let _ = finished.send(child.wait());
}
