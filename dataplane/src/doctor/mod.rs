//! What this kernel and this machine offer, and what is lost without it. Found by trying, never by version number.

mod environment;
mod kernel;

pub(crate) use kernel::{has_route_only_lookup, has_sock_destroy, has_tcx, unread_bytes};

/// One thing that was looked for.
#[derive(Clone, Debug)]
pub struct Feature {
    /// What it is.
    pub name: &'static str,
    /// Whether it is there.
    pub available: bool,
    /// Whether Weft runs without it.
    pub required: bool,
    /// What was found: a version, a path, an error.
    pub detail: String,
    /// What does not work without it, and what to do.
    pub without: &'static str,
}

/// Looks for everything. Needs root to try out BPF; says so otherwise.
#[must_use]
pub fn probe() -> Vec<Feature> {
    let mut features = environment::probe();
    features.extend(kernel::probe());
    features
}

/// The directory where cgroup v2 is mounted, in unified and hybrid layouts.
#[must_use]
pub fn cgroup2_mount() -> Option<std::path::PathBuf> {
    environment::mount_of("cgroup2", environment::CGROUP2)
}
