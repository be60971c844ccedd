//! BPF file systems of their own, so that pins of labs, of tests and of a running Weft never meet.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::{LabError, Result};

/// A BPF file system that goes when this does, with what is pinned in it.
#[derive(Debug)]
pub struct BpfFs(PathBuf);

impl BpfFs {
    /// Mounts one at `/run/NAME`, which is made.
    ///
    /// # Errors
    /// When the directory cannot be made or the mount is refused.
    pub fn mount(name: &str) -> Result<Self> {
        let path = Path::new("/run").join(name);
        mount(&path)?;
        Ok(Self(path))
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BpfFs {
    fn drop(&mut self) {
        // What cannot be taken away goes with the next boot.
        let _ = unmount(&self.0);
        let _ = fs::remove_dir(&self.0);
    }
}

/// Mounts a BPF file system at `path`, which is made.
///
/// # Errors
/// When the directory cannot be made or the mount is refused.
pub(crate) fn mount(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(LabError::io("create", path))?;
    let no_data: Option<&std::ffi::CStr> = None;
    rustix::mount::mount("bpf", path, "bpf", MountFlags::empty(), no_data)
        .map_err(|errno| LabError::io("mount bpffs at", path)(errno.into()))
}

/// Unmounts it, also while something still uses it; what was pinned there goes with the last user.
///
/// # Errors
/// When the kernel refuses. A path where nothing is mounted is fine.
pub(crate) fn unmount(path: &Path) -> Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(LabError::io("unmount", path)(errno.into())),
    }
}

/// Every file pinned below `dir`, sorted; empty when there is no such directory.
///
/// # Errors
/// When a directory cannot be listed.
pub fn pins(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if dir.exists() {
        collect(dir, &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(LabError::io("list", dir))? {
        let entry = entry.map_err(LabError::io("list", dir))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), found)?;
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}
