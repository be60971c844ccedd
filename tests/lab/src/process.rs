//! Watching and ending processes of the lab.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::{LabError, Output, Result};

/// A running process of the lab; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Stands for exactly this process, also after its pid was given to another.
    pidfd: OwnedFd,
    line: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    pub(crate) fn new(
        child: Child,
        line: String,
        stdout: PathBuf,
        stderr: PathBuf,
    ) -> Result<Self> {
        let pid = rustix::process::Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| LabError::Spawn {
            program: line.clone(),
            source: errno.into(),
        })?;
        Ok(Self {
            child,
            pidfd,
            line,
            stdout,
            stderr,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The command line it was started with.
    pub fn command(&self) -> &str {
        &self.line
    }

    /// Sends SIGTERM. A process that has ended already is fine.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        // The wait can only fail when the process was waited for already.
        let _ = self.child.wait();
    }

    /// Sends any signal. A process that has ended already is fine.
    pub fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }

    /// Waits at most `timeout` for its end; `None` when it still runs.
    ///
    /// # Errors
    /// When the system refuses to wait for it.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<ExitStatus>> {
        wait_any(&[self], timeout);
        self.child.try_wait().map_err(|source| LabError::Spawn {
            program: self.line.clone(),
            source,
        })
    }

    /// Whether it has not ended yet.
    pub fn is_running(&self) -> bool {
        !wait_any(&[self], Duration::ZERO)
    }

    /// Waits until standard output or standard error has a line that contains `text`.
    ///
    /// # Errors
    /// When `timeout` is over or the process ends before; with what it printed.
    pub fn wait_for_line(&mut self, text: &str, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let ended = !self.is_running();
            if self.stdout().contains(text) || self.stderr().contains(text) {
                return Ok(());
            }
            if ended || Instant::now() > deadline {
                return Err(LabError::Timeout {
                    what: format!("`{text}` from `{}`", self.line),
                    after: timeout,
                    detail: format!(
                        "{}; it said: {}{}",
                        if ended { " (it has ended)" } else { "" },
                        self.stdout(),
                        self.stderr()
                    ),
                });
            }
            sleep(Duration::from_millis(5));
        }
    }

    /// What it has printed to standard output so far.
    pub fn stdout(&self) -> String {
        read_lossy(&self.stdout)
    }

    /// What it has printed to standard error so far.
    pub fn stderr(&self) -> String {
        read_lossy(&self.stderr)
    }

    pub(crate) fn output(&self, status: ExitStatus) -> Result<Output> {
        Ok(Output {
            command: self.line.clone(),
            status,
            stdout: self.stdout(),
            stderr: self.stderr(),
        })
    }

    /// Waits for its end and returns what it printed.
    ///
    /// # Errors
    /// [`LabError::Timeout`] when it still runs after `timeout`; it is left running.
    pub fn finish(&mut self, timeout: Duration) -> Result<Output> {
        match self.wait(timeout)? {
            Some(status) => self.output(status),
            None => Err(LabError::Timeout {
                what: format!("end of `{}`", self.line),
                after: timeout,
                detail: String::new(),
            }),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until one of the processes has ended; false when `timeout` is over before.
pub(crate) fn wait_any(processes: &[&Process], timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        let mut fds: Vec<_> = processes
            .iter()
            .map(|process| PollFd::new(&process.pidfd, PollFlags::IN))
            .collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            // Interrupted by a signal; nothing else can go wrong with a pidfd.
            Err(_) if left.is_zero() => return false,
            Err(_) => {}
        }
    }
}

fn read_lossy(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
