//! The run directory belongs to one agent at a time.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixListener;

const LOCK: &str = "agent.lock";
const SOCKET: &str = "agent.sock";

/// A run directory that this process has for itself, until dropped.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    // The lock goes with the file, also when the process is killed.
    _lock: File,
}

/// Why the run directory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error(
        "another agent (pid {pid}) runs on {path}: stop it, or give this one its own --run-dir, --bpffs and --cgroup"
    )]
    Taken {
        /// Process id of the other agent, or "unknown".
        pid: String,
        /// The directory.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{path}: {source}: give a directory that this user may write to with --run-dir")]
    Io {
        /// File or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl RunDir {
    /// Makes the directory if it is missing (mode 0700) and locks it.
    ///
    /// # Errors
    /// When another agent has it, or the system refuses.
    pub fn lock(path: &Path) -> Result<Self, LockError> {
        let mut builder = DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(at(path))?;
        let lock_path = path.join(LOCK);
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(at(&lock_path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let pid = holder(&mut lock).unwrap_or_else(|| "unknown".to_owned());
                let path = path.to_owned();
                return Err(LockError::Taken { pid, path });
            }
            Err(e) => return Err(at(&lock_path)(e.into())),
        }
        write_pid(&mut lock).map_err(at(&lock_path))?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Listens on the admin socket (mode 0600). One that a killed agent left behind is replaced: whoever has the lock is the
    /// only one alive.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen(&self) -> Result<UnixListener, LockError> {
        let socket = socket_path(&self.path);
        match std::fs::remove_file(&socket) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(at(&socket)(e)),
            _ => {}
        }
        let listener = UnixListener::bind(&socket).map_err(at(&socket))?;
        // Between these two lines the directory's own mode keeps others out, if this agent made it.
        std::fs::set_permissions(&socket, Permissions::from_mode(0o600)).map_err(at(&socket))?;
        Ok(listener)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Gone already, or not ours to remove: the next agent replaces it.
        let _ = std::fs::remove_file(socket_path(&self.path));
    }
}

/// Where the agent of `run_dir` listens.
pub(super) fn socket_path(run_dir: &Path) -> PathBuf {
    run_dir.join(SOCKET)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> LockError + '_ {
    |source| LockError::Io {
        path: path.to_owned(),
        source,
    }
}

fn holder(lock: &mut File) -> Option<String> {
    let mut text = String::new();
    lock.read_to_string(&mut text).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    Some(pid.to_string())
}

fn write_pid(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}
