//! The lab's cgroups: one for each node, below it one for each place that processes run in.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{LabError, Result};

/// How long killed processes may take to leave their cgroup.
const EMPTY_WITHIN: Duration = Duration::from_secs(5);
const RETRY_EVERY: Duration = Duration::from_millis(5);

/// A cgroup v2 directory. Cheap to clone; dropping it does not remove the cgroup.
#[derive(Debug, Clone)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes `name` directly below the cgroup v2 mount.
    ///
    /// # Errors
    /// When no cgroup v2 is mounted or the directory cannot be made.
    pub fn create(name: &str) -> Result<Self> {
        Self::at(mount_point()?.join(name))
    }

    /// Makes a child of this cgroup.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn child(&self, name: &str) -> Result<Self> {
        Self::at(self.path.join(name))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that takes the pid of a process to move in.
    pub fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Kills every process in this cgroup and below, removes it and all its children.
    ///
    /// # Errors
    /// When processes do not end or a directory stays busy. A cgroup that is gone already is fine.
    pub fn remove(&self) -> Result<()> {
        remove(&self.path)
    }

    fn at(path: PathBuf) -> Result<Self> {
        fs::create_dir(&path).map_err(LabError::io("create cgroup", &path))?;
        Ok(Self { path })
    }
}

/// The directory cgroup v2 is mounted on, in unified and hybrid layouts.
///
/// # Errors
/// [`LabError::NoCgroup2`] when there is none.
pub fn mount_point() -> Result<PathBuf> {
    let mounts = "/proc/self/mounts";
    let text = fs::read_to_string(mounts).map_err(LabError::io("read", mounts))?;
    find_cgroup2(&text).ok_or(LabError::NoCgroup2)
}

fn find_cgroup2(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let path = fields.next()?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(path))
    })
}

/// Kills and removes the tree at `path`; see [`Cgroup::remove`].
pub(crate) fn remove(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let kill = path.join("cgroup.kill");
    fs::write(&kill, "1").map_err(LabError::io("write", kill))?;
    wait_until_empty(path)?;
    remove_tree(path)
}

fn wait_until_empty(path: &Path) -> Result<()> {
    let events = path.join("cgroup.events");
    let deadline = Instant::now() + EMPTY_WITHIN;
    loop {
        let text = fs::read_to_string(&events).map_err(LabError::io("read", &events))?;
        if text.lines().any(|line| line == "populated 0") {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(LabError::Timeout {
                what: format!("end of all processes in {}", path.display()),
                after: EMPTY_WITHIN,
                detail: String::new(),
            });
        }
        sleep(RETRY_EVERY);
    }
}

fn remove_tree(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path).map_err(LabError::io("list", path))? {
        let entry = entry.map_err(LabError::io("list", path))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    remove_dir(path).map_err(LabError::io("remove cgroup", path))
}

/// The kernel may call a cgroup busy for a moment after its last process ended.
fn remove_dir(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + EMPTY_WITHIN;
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                sleep(RETRY_EVERY);
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_cgroup2_in_unified_and_hybrid_layouts() {
        let unified = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        assert_eq!(find_cgroup2(unified), Some(PathBuf::from("/sys/fs/cgroup")));
        let hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            find_cgroup2(hybrid),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        assert_eq!(find_cgroup2("cgroup /a cgroup rw 0 0\n"), None);
    }
}
