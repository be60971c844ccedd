//! Named network namespaces, as `ip netns` keeps them under `/run/netns`.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{LabError, Result};

/// Where `ip netns` keeps its names.
pub const NETNS_DIR: &str = "/run/netns";

/// A network namespace with a name. Cheap to clone; dropping it does not remove the namespace.
#[derive(Debug, Clone)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes a new namespace with loopback up and duplicate address detection off.
    ///
    /// # Errors
    /// When `ip netns add` fails (no root, name taken) or a sysctl cannot be written.
    pub fn create(name: impl Into<String>) -> Result<Self> {
        let netns = Self { name: name.into() };
        run_ip(&["netns", "add", &netns.name], "")?;
        netns.sysctl(&[
            ("net/ipv6/conf/all/accept_dad", "0"),
            ("net/ipv6/conf/default/accept_dad", "0"),
            ("net/ipv6/conf/all/accept_ra", "0"),
            ("net/ipv6/conf/default/accept_ra", "0"),
            ("net/ipv4/conf/all/rp_filter", "0"),
            ("net/ipv4/conf/default/rp_filter", "0"),
        ])?;
        netns.ip("link set lo up\n")?;
        Ok(netns)
    }

    /// A namespace that exists already.
    pub fn existing(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// Its name, as `ip -n NAME` takes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for it, as `nsenter --net=PATH` takes it.
    pub fn path(&self) -> PathBuf {
        Path::new(NETNS_DIR).join(&self.name)
    }

    /// Runs `f` on a thread inside the namespace. Sockets opened and processes started there stay in it.
    ///
    /// # Errors
    /// When the namespace cannot be entered. A panic in `f` goes on in the caller.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T> {
        let path = self.path();
        let enter = || -> io::Result<()> {
            let file = File::open(&path)?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(())
        };
        let inside = thread::scope(|scope| {
            scope
                .spawn(|| enter().map(|()| f()))
                .join()
                .unwrap_or_else(|panic| resume_unwind(panic))
        });
        inside.map_err(LabError::io("enter network namespace", path))
    }

    /// Sets sysctls, given relative to `/proc/sys` (only below `net/`, which is per namespace).
    ///
    /// # Errors
    /// When one cannot be written; the error names it.
    pub fn sysctl(&self, settings: &[(&str, &str)]) -> Result<()> {
        self.run(|| {
            for (key, value) in settings {
                let path = Path::new("/proc/sys").join(key);
                std::fs::write(&path, value).map_err(LabError::io("write", path))?;
            }
            Ok(())
        })?
    }

    /// Runs lines of `ip` commands (without the leading `ip`) inside the namespace; stops at the first that fails.
    ///
    /// # Errors
    /// The failing line and what `ip` says about it.
    pub fn ip(&self, lines: &str) -> Result<()> {
        run_ip(&["-n", &self.name, "-batch", "-"], lines)
    }

    /// Removes the name; the namespace ends with its last process.
    ///
    /// # Errors
    /// When `ip netns del` fails.
    pub fn remove(&self) -> Result<()> {
        run_ip(&["netns", "del", &self.name], "")
    }
}

fn run_ip(args: &[&str], input: &str) -> Result<()> {
    let spawn_error = |source| LabError::Spawn {
        program: "ip".into(),
        source,
    };
    let mut child = Command::new("ip")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(spawn_error)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A broken pipe means `ip` gave up early: its exit status says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(spawn_error)?;
    if output.status.success() {
        return Ok(());
    }
    Err(LabError::Command {
        command: format!("ip {}", args.join(" ")),
        status: output.status.to_string(),
        stderr: format!(
            "{}{}",
            String::from_utf8_lossy(&output.stderr).trim(),
            if input.is_empty() {
                String::new()
            } else {
                format!("\nbatch was:\n{input}")
            }
        ),
    })
}
