//! The kernel side as the agent handles it: loading, pinning, attaching, and maps as [`crate::tables::Table`]s.
//!
//! All programs come in one object with one set of maps, which is opened for each part that is loaded, and without programs for the maps. Maps and links are pinned under `<bpffs>/<ABI hash>/`, so that they
//! outlive the agent and the next one finds them.

mod abi;
mod accel;
mod arena;
mod array;
mod attach;
mod cleanup;
mod clock;
mod clsact;
mod conntrack;
mod counters;
mod events;
mod load;
mod open;
mod part;
mod pin;
mod pod;
mod programs;
mod run;
mod size;
mod skel;
mod slots;
mod table;
mod tcx;

pub use accel::{Accelerated, LeavingCount, SocketIterator};
pub use attach::{Attachment, attach};
pub use cleanup::{CleanupError, CleanupReport, cleanup};
pub use conntrack::ConntrackMaps;
pub use counters::Counters;
pub use events::Events;
pub use load::{Loaded, MapSizes, load, load_with, trial_load};
/// `MARK_TO_PROXY` of bpf/include/abi/proxy.h: a macro, which the skeleton has not.
pub(crate) const MARK_TO_PROXY: u32 = 0x5eed_0000;

pub use open::{open_policy_tables, open_tables};
pub use pin::{PinDir, PinError};
pub use pod::PodHook;
pub use run::{Check, Sweep};
pub use table::BpfTable;

pub(crate) use abi::{Record, from_bytes, netns_cookie};
pub(crate) use arena::Arena;
pub(crate) use array::Placed;
pub(crate) use cleanup::retire_others;
pub(crate) use skel::types;

/// Whatever kept the kernel from taking or giving something.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// Where pins live.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// Opening or loading the object.
    #[error("{step}: {source}: {}", hint(source))]
    Load {
        /// What was tried.
        step: String,
        /// libbpf's answer.
        source: libbpf_rs::Error,
    },
    /// The cgroup to attach to.
    #[error("cgroup {path}: {source}: give a directory of a cgroup v2 hierarchy with --cgroup")]
    Cgroup {
        /// As configured.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The path is no cgroup v2 directory.
    #[error(
        "{path} is not in a cgroup v2 hierarchy: mount one (`mount -t cgroup2 none DIR`) and give it with --cgroup"
    )]
    NotCgroup2 {
        /// As configured.
        path: String,
    },
    /// A size for, or use of, a map that is not there.
    #[error("there is no map {0:?}: `weft status` lists them (--map-size NAME=ENTRIES)")]
    UnknownMap(String),
    /// A size for a map that has another's.
    #[error("map {0} is always as large as map {1}: size that one (--map-size {1}=ENTRIES)")]
    SizedTogether(&'static str, &'static str),
    /// A size that programs divide by.
    #[error(
        "map {0} has {1} entries, and needs a power of two (--map-size {0}=16384; `weft cleanup` before, if it is pinned)"
    )]
    NotPowerOfTwo(&'static str, u32),
    /// A file descriptor.
    #[error("no file descriptor is left: {0}: raise the limit (LimitNOFILE)")]
    Descriptor(std::io::Error),
    /// A thread of the agent's.
    #[error("no thread can be started: {0}")]
    Thread(std::io::Error),
    /// Reaching this network namespace's interfaces.
    #[error("interfaces cannot be reached: {0}")]
    Interfaces(std::io::Error),
    /// The object has no room for the agent's settings.
    #[error("the BPF object has no section for the agent's settings")]
    NoConfig,
    /// A program that the object lacks.
    #[error("the BPF object has no program {0}")]
    UnknownProgram(&'static str),
    /// A map operation.
    #[error(transparent)]
    Table(#[from] crate::tables::TableError),
    /// A map that did not take all of it.
    #[error(transparent)]
    Write(#[from] crate::tables::WriteError),
}

fn hint(error: &libbpf_rs::Error) -> &'static str {
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; if it is, RUST_LOG=libbpf=debug shows what this kernel refuses"
        }
        libbpf_rs::ErrorKind::NotFound => {
            "this kernel may lack BTF (CONFIG_DEBUG_INFO_BTF) or a program type: see `weft doctor`"
        }
        _ => "`weft doctor` tells what this kernel offers",
    }
}
