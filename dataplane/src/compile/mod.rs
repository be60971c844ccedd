//! From resources to slots: pure functions, no I/O.
//!
//! [`select`] says which endpoints take connections from this node, [`slots`] lays them out so that the kernel chooses with
//! one look-up.

mod alias;
mod endpoint;
mod maglev;
mod round_robin;
mod select;
mod turns;

use std::net::{IpAddr, SocketAddr};

use weft_proto::model::LbPolicy;

pub use endpoint::{LocalityPool, NodeEndpoint};
pub use maglev::table_size as maglev_table_size;
pub use round_robin::SEQUENCE_BOUND;
pub use select::{Here, select};

use crate::tables::{BackendId, Slot};

/// Address family of a VIP and of the backends behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The family of an address that is canonical, that is not v4-mapped.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// A backend that takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number in the kernel.
    pub backend: BackendId,
    /// Where it listens: what consistent hashing hashes.
    pub address: SocketAddr,
    /// Relative share, at least 1.
    pub weight: u32,
}

/// The slots that spread connections over `members` as `policy` says: a function of both and of their order alone.
///
/// `LeastRequest` takes its two candidates from the same slots as `Random` takes its one.
#[must_use]
pub fn slots(policy: LbPolicy, members: &[Member]) -> Vec<Slot> {
    match policy {
        LbPolicy::Random | LbPolicy::LeastRequest => alias::slots(members),
        LbPolicy::RoundRobin => certain(members, round_robin::sequence(&weights(members))),
        LbPolicy::Maglev => certain(members, maglev::table(members)),
    }
}

fn weights(members: &[Member]) -> Vec<u32> {
    members.iter().map(|m| m.weight.max(1)).collect()
}

/// Slots without a second choice.
fn certain(members: &[Member], sequence: Vec<u32>) -> Vec<Slot> {
    sequence
        .into_iter()
        .map(|index| certain_slot(members[index as usize].backend))
        .collect()
}

fn certain_slot(backend: BackendId) -> Slot {
    Slot {
        backend,
        alias: backend,
        threshold: u32::MAX,
    }
}

#[cfg(test)]
mod tests;
