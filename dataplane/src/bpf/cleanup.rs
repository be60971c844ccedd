//! Takes everything out of the kernel that any version of the agent put there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::{PinDir, PinError, accel, from_bytes, pod};

/// Short connections from outside are over by then. Longer ones end with the programs that translate them.
const OUTSIDE_DRAINS: Duration = Duration::from_secs(2);

/// What could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    /// Links and maps.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// Filters of interfaces.
    #[error("tc filters cannot be removed: {0}")]
    Filters(io::Error),
}

/// What [`cleanup`] removed.
#[derive(Debug, Default)]
pub struct CleanupReport {
    /// Programs taken off their hooks.
    pub links: usize,
    /// Maps unpinned.
    pub maps: usize,
}

/// Detaches all pinned links and unpins all maps below `bpffs`, of every ABI. Nothing there is no error.
///
/// Programs go first: none runs over maps that are half gone. Those attached by tc filters, which need no pins, are looked for on
/// the interfaces of this network namespace.
///
/// # Errors
/// When a pin or a filter cannot be removed.
pub fn cleanup(bpffs: &Path) -> Result<CleanupReport, CleanupError> {
    let pins = PinDir::at(bpffs);
    let mut draining = false;
    for dir in pins.abi_dirs()? {
        draining |= close_to_outside(&dir.join("maps"));
    }
    if draining {
        thread::sleep(OUTSIDE_DRAINS);
    }
    let mut report = CleanupReport {
        links: pod::remove_filters().map_err(CleanupError::Filters)?,
        maps: 0,
    };
    for dir in pins.abi_dirs()? {
        remove_abi(&dir, &mut report)?;
    }
    // Ours if it is empty now; somebody else's otherwise, or the mount point itself.
    let _ = fs::remove_dir(pins.root());
    Ok(report)
}

/// Removes what agents of other ABIs left, once this one serves.
pub(crate) fn retire_others(pins: &PinDir) -> Result<CleanupReport, PinError> {
    let mut report = CleanupReport::default();
    for dir in pins.others()? {
        remove_abi(&dir, &mut report)?;
    }
    Ok(report)
}

/// Leaves new connections of clients outside to whoever serves them next; true if there are some that still need the programs.
fn close_to_outside(maps: &Path) -> bool {
    let zero = 0_u32.to_ne_bytes();
    let first = |name: &str| MapHandle::from_pinned_path(maps.join(name)).ok();
    let active = first("nat_activity")
        .and_then(|map| map.lookup(&zero, MapFlags::ANY).ok().flatten())
        .and_then(|value| from_bytes::<u64>(&value));
    let Some(settings) = first("nat_settings").filter(|_| active.is_some_and(|a| a & 1 == 1))
    else {
        return false;
    };
    let closed = vec![0; settings.value_size() as usize];
    settings.update(&zero, &closed, MapFlags::ANY).is_ok()
}

fn remove_abi(dir: &Path, report: &mut CleanupReport) -> Result<(), PinError> {
    accel::stop(&dir.join("maps"));
    for pin in files(&dir.join("links"))? {
        if let Ok(link) = Link::open(&pin) {
            // Also when somebody else holds the link open. One whose cgroup is gone is detached already.
            let _ = link.detach();
        }
        fs::remove_file(&pin).map_err(PinError::io(&pin))?;
        report.links += 1;
    }
    for pin in files(&dir.join("maps"))? {
        fs::remove_file(&pin).map_err(PinError::io(&pin))?;
        report.maps += 1;
    }
    for dir in [&dir.join("links"), &dir.join("maps"), dir] {
        match fs::remove_dir(dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(PinError::io(dir)(e)),
            _ => {}
        }
    }
    Ok(())
}

fn files(dir: &Path) -> Result<Vec<PathBuf>, PinError> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.filter_map(|e| Some(e.ok()?.path())).collect()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(PinError::io(dir)(e)),
    }
}
