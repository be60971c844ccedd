//! The lab's cgroups: one for each node, below it one for each place that processes run in.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{LabError, Result};

/// How long killed processes may take to leave their cgroup, and the cgroup to go.
const GONE_WITHIN: Duration = Duration::from_secs(5);
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
    let deadline = Instant::now() + GONE_WITHIN;
    // More than once: a process that was just started may join after the kill.
    loop {
        match kill_and_remove(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                sleep(RETRY_EVERY);
            }
            done => return done.map_err(LabError::io("remove cgroup", path)),
        }
    }
}

fn kill_and_remove(path: &Path) -> io::Result<()> {
    fs::write(path.join("cgroup.kill"), "1")?;
    remove_tree(path)
}

/// Children first. Busy while a killed process has not ended yet.
fn remove_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(path)
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
