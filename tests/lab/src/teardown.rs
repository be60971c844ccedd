//! Removing a lab by its name alone: the same code for a lab that is dropped and for one whose owner was killed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::netns::{NETNS_DIR, Netns};
use crate::owner::{self, LABS_DIR};
use crate::{LabError, Result, bpffs, cgroup};

/// Name of the BPF file system in the lab's directory.
pub(crate) const BPFFS: &str = "bpf";

/// Directory of lab `name`.
pub(crate) fn lab_dir(name: &str) -> PathBuf {
    Path::new(LABS_DIR).join(name)
}

/// Removes everything lab `name` made: processes, pins, namespaces, cgroups, files. Goes on after an error and
/// returns the first one; the lab's directory then stays, so that a later sweep tries again.
pub(crate) fn remove(name: &str) -> Result<()> {
    let dir = lab_dir(name);
    let steps = [
        cgroup::mount_point().and_then(|root| cgroup::remove(&root.join(name))),
        bpffs::unmount(&dir.join(BPFFS)),
        remove_namespaces(name),
    ];
    steps.into_iter().collect::<Result<()>>()?;
    remove_dir(&dir)
}

/// Removes the labs whose owner was killed. Call with the [`owner::Lock`] held.
pub(crate) fn sweep() -> Result<()> {
    for name in owner::abandoned()? {
        eprintln!("weft-lab: removing {name}, which a killed run left behind");
        if let Err(error) = remove(&name) {
            // Not ours, and not in our way: names are random.
            eprintln!("weft-lab: {name} not removed completely: {error}");
        }
    }
    Ok(())
}

fn remove_namespaces(name: &str) -> Result<()> {
    let prefix = format!("{name}-");
    let Ok(entries) = fs::read_dir(NETNS_DIR) else {
        return Ok(());
    };
    let mut result = Ok(());
    for entry in entries.flatten() {
        let Ok(file) = entry.file_name().into_string() else {
            continue;
        };
        if file.starts_with(&prefix) {
            result = result.and(Netns::existing(file).remove());
        }
    }
    result
}

fn remove_dir(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    fs::remove_dir_all(dir).map_err(LabError::io("remove", dir))
}
