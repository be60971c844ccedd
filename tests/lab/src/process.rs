//! Starting, watching and ending processes inside the lab.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::cgroup::Cgroup;
use crate::netns::Netns;
use crate::{LabError, Result};

/// Moves the shell into the cgroup named by `$0`, then becomes the program: the pid stays the one that was started.
const JOIN_CGROUP: &str = r#"echo $$ > "$0" && exec "$@""#;

/// Numbers log files, so that two processes of one name do not share them.
static SEQUENCE: AtomicU64 = AtomicU64::new(0);

/// Where processes run: a network namespace, a cgroup, and the directory their output goes to.
#[derive(Debug, Clone)]
pub struct Place {
    pub(crate) netns: Option<Netns>,
    pub(crate) cgroup: Cgroup,
    pub(crate) logs: PathBuf,
    pub(crate) label: String,
}

impl Place {
    /// Prepares to run `program` here.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Launch {
        let program = program.as_ref().to_owned();
        let mut command = Command::new("sh");
        command
            .args(["-c", JOIN_CGROUP])
            .arg(self.cgroup.procs())
            .arg(&program);
        Launch {
            place: self.clone(),
            words: vec![program],
            command,
        }
    }
}

/// A command to be started in a [`Place`].
#[derive(Debug)]
pub struct Launch {
    place: Place,
    words: Vec<OsString>,
    command: Command,
}

impl Launch {
    /// Adds one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.words.push(arg.as_ref().to_owned());
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        for arg in args {
            self = self.arg(arg);
        }
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Starts it. Standard input is empty, output goes to files of the lab.
    ///
    /// # Errors
    /// When the namespace cannot be entered, a log file not made, or the shell not started. A program that does not
    /// exist shows as exit status 127.
    pub fn spawn(mut self) -> Result<Process> {
        let base = self.log_base();
        let stdout = base.with_extension("out");
        let stderr = base.with_extension("err");
        let create = |path: &Path| File::create(path).map_err(LabError::io("create", path));
        self.command
            .stdin(Stdio::null())
            .stdout(create(&stdout)?)
            .stderr(create(&stderr)?);
        let command = &mut self.command;
        let spawned = match &self.place.netns {
            Some(netns) => netns.run(|| command.spawn())?,
            None => command.spawn(),
        };
        let line = command_line(&self.words);
        let child = spawned.map_err(|source| LabError::Spawn {
            program: line.clone(),
            source,
        })?;
        Process::new(child, line, stdout, stderr)
    }

    /// Runs it to its end and returns what it printed, whatever its exit status.
    ///
    /// # Errors
    /// As [`Launch::spawn`], and [`LabError::Timeout`] after which it is killed.
    pub fn run(self, timeout: Duration) -> Result<Output> {
        let mut process = self.spawn()?;
        match process.wait(timeout)? {
            Some(status) => process.output(status),
            None => Err(LabError::Timeout {
                what: format!("end of `{}`", process.line),
                after: timeout,
                detail: format!("; it said: {}", process.stderr().trim()),
            }),
        }
    }

    fn log_base(&self) -> PathBuf {
        let number = SEQUENCE.fetch_add(1, Ordering::Relaxed);
        let program = self.words.first().map(Path::new).and_then(Path::file_name);
        let program = program.unwrap_or(OsStr::new("process")).to_string_lossy();
        let label = &self.place.label;
        self.place
            .logs
            .join(format!("{number:04}-{label}-{program}.log"))
    }
}

/// What a process printed, and how it ended.
#[derive(Debug)]
pub struct Output {
    /// The command line.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Itself if the exit status is 0.
    ///
    /// # Errors
    /// [`LabError::Command`] otherwise.
    pub fn success(self) -> Result<Self> {
        if self.status.success() {
            return Ok(self);
        }
        Err(LabError::Command {
            command: self.command,
            status: self.status.to_string(),
            stderr: format!("{}\n{}", self.stderr.trim(), self.stdout.trim()),
        })
    }

    /// Standard output as one JSON value.
    ///
    /// # Errors
    /// [`LabError::Parse`] with what was printed.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.stdout).map_err(|source| self.parse_error(source))
    }

    /// Standard output as one JSON value a line.
    ///
    /// # Errors
    /// [`LabError::Parse`] with what was printed.
    pub fn json_lines<T: serde::de::DeserializeOwned>(&self) -> Result<Vec<T>> {
        let lines = self.stdout.lines().filter(|line| !line.trim().is_empty());
        lines
            .map(|line| serde_json::from_str(line).map_err(|source| self.parse_error(source)))
            .collect()
    }

    fn parse_error(&self, source: serde_json::Error) -> LabError {
        LabError::Parse {
            command: self.command.clone(),
            source,
            output: format!("{}{}", self.stdout, self.stderr),
        }
    }
}

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
    fn new(child: Child, line: String, stdout: PathBuf, stderr: PathBuf) -> Result<Self> {
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
        let timeout = Timespec::try_from(timeout).ok();
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        // An interrupted poll looks like a timeout, and `try_wait` tells.
        let _ = poll(&mut fds, timeout.as_ref());
        self.child.try_wait().map_err(|source| LabError::Spawn {
            program: self.line.clone(),
            source,
        })
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.wait(Duration::ZERO), Ok(None))
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

    fn output(&self, status: ExitStatus) -> Result<Output> {
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

fn read_lossy(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn command_line(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
