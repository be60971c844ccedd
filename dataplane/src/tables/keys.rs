//! Keys and values as the agent thinks of them; their byte form is `bpf/include/abi.h`.

use std::net::{IpAddr, SocketAddr};

use super::ServiceFlags;
use weft_proto::model::{LbPolicy, Protocol, Side};

/// Kernel number of a cluster's backends of one address family. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceId(pub u32);

/// Kernel number of a backend of one service. Never 0, and not used again while a socket may remember it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(pub u32);

/// Which of a service's slot sets counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub u32);

/// A virtual address, port and protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey {
    /// Canonical: never a v4-mapped IPv6 address.
    pub address: IpAddr,
    /// Host byte order.
    pub port: u16,
    /// Transport.
    pub protocol: Protocol,
    /// Whose connections.
    pub side: Side,
}

/// How connections to a [`ServiceKey`] are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceEntry {
    /// Whose slots.
    pub id: ServiceId,
    /// Which set of them.
    pub generation: Generation,
    /// How many; 0 refuses connections at once.
    pub slots: u32,
    /// How one is chosen.
    pub policy: LbPolicy,
    /// ClientIP affinity in seconds; 0 for none.
    pub affinity_seconds: u32,
    /// One of its backends, for the processor's caches; 0 for none.
    pub near: BackendId,
    /// What else the kernel has to do for its connections.
    pub flags: ServiceFlags,
}

/// Place of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotKey {
    /// Whose.
    pub service: ServiceId,
    /// Of which set.
    pub generation: Generation,
    /// 0 to `slots - 1`.
    pub index: u32,
}

/// `backend` if a random u32 is at most `threshold`, else `alias` (Vose's alias method).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// First choice.
    pub backend: BackendId,
    /// Second choice.
    pub alias: BackendId,
    /// Share of the first, in units of 2^-32 less one: `u32::MAX` is always.
    pub threshold: u32,
}

/// Where connections go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendEntry {
    /// Pod address and port.
    pub address: SocketAddr,
    /// Whose backend.
    pub service: ServiceId,
    /// Relative share, at least 1.
    pub weight: u32,
    /// In the current slots: clients bound to it by affinity or an open UDP flow may stay.
    pub accepts: bool,
}

/// Connection counts of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BackendLoad {
    /// Now.
    pub open: u64,
    /// Ever.
    pub total: u64,
    /// Smoothed round-trip time in microseconds, where the policy asks for it; 0: not measured.
    pub srtt_us: u32,
}

/// The next ids to give out. 0 in a fresh table means 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AllocatedIds {
    /// Next [`ServiceId`].
    pub next_service: u32,
    /// Next [`BackendId`].
    pub next_backend: u32,
}
