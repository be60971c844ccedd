//! Starting processes: where they run, and with what.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::cgroup::Cgroup;
use crate::netns::Netns;
use crate::{LabError, Output, Process, Result};

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
                what: format!("end of `{}`", process.command()),
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

fn command_line(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
