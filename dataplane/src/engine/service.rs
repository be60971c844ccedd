//! A service as the kernel has it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_proto::model::LbPolicy;

use super::sweep::OldSlots;
use crate::compile::Family;
use crate::tables::{
    BackendEntry, BackendId, Generation, ServiceEntry, ServiceId, ServiceSettings, Slot,
};

/// What has one [`ServiceId`]: a cluster's backends of one family.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    /// Name of the cluster, whether or not that resource is there.
    pub cluster: Arc<str>,
    /// Family of VIPs and backends.
    pub family: Family,
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.cluster, self.family)
    }
}

/// What the tables hold for a [`ServiceName`].
#[derive(Debug)]
pub(super) struct Service {
    pub(super) id: ServiceId,
    /// The newest complete set of slots.
    pub(super) generation: Generation,
    /// How many it has.
    pub(super) slots: u32,
    /// Fingerprint of what the slots were made from. `None`: there are none, or they are another agent's.
    pub(super) layout: Option<u128>,
    /// Slots found at start, until the first plan has compared them.
    pub(super) adopted_slots: Option<Vec<Slot>>,
    pub(super) policy: LbPolicy,
    pub(super) affinity_seconds: u32,
    /// Its connections stay with TCP.
    pub(super) unaccelerated: bool,
    /// Only backends of this node are asked.
    pub(super) node_only: bool,
    pub(super) settings: ServiceSettings,
    /// Pods reach it through Envoy.
    pub(super) layer7: bool,
    /// Sorted by address.
    pub(super) backends: Vec<Backend>,
    /// Has an entry in `cursors`.
    pub(super) has_cursor: bool,
    /// Connections ever made to backends that are gone.
    pub(super) retired_total: u64,
}

impl Service {
    pub(super) fn new(id: ServiceId) -> Self {
        Self {
            id,
            generation: Generation(0),
            slots: 0,
            layout: None,
            adopted_slots: None,
            policy: LbPolicy::Random,
            affinity_seconds: 0,
            unaccelerated: false,
            node_only: false,
            settings: ServiceSettings::default(),
            layer7: false,
            backends: Vec::new(),
            has_cursor: false,
            retired_total: 0,
        }
    }

    pub(super) fn backend(&self, address: &SocketAddr) -> Option<&Backend> {
        let at = self
            .backends
            .binary_search_by_key(address, |b| b.address)
            .ok()?;
        self.backends.get(at)
    }

    /// Its current slots are known to be whole; slots found incomplete at start are already waiting to be deleted.
    pub(super) fn owns_slots(&self) -> bool {
        self.layout.is_some() || self.adopted_slots.is_some()
    }

    /// Goes over to another slot set; returns the one that is no longer needed, if it is another.
    pub(super) fn replace_slots(
        &mut self,
        generation: Generation,
        slots: usize,
        fingerprint: u128,
    ) -> Option<OldSlots> {
        let owned = self.owns_slots();
        self.layout = Some(fingerprint);
        self.adopted_slots = None;
        if generation == self.generation {
            return None;
        }
        let old = OldSlots {
            service: self.id,
            generation: self.generation,
            indices: (0..self.slots).collect(),
        };
        self.generation = generation;
        self.slots = u32::try_from(slots).unwrap_or(u32::MAX);
        (owned && !old.indices.is_empty()).then_some(old)
    }

    /// What each of its VIPs should have.
    pub(super) fn entry(&self) -> ServiceEntry {
        ServiceEntry {
            id: self.id,
            generation: self.generation,
            slots: self.slots,
            policy: self.policy,
            affinity_seconds: self.affinity_seconds,
            near: self.backends.first().map_or(BackendId(0), |b| b.id),
            flags: self
                .settings
                .flags(self.policy, self.layer7)
                .unaccelerated(self.unaccelerated)
                .node_only(self.node_only),
        }
    }
}

/// A backend that stands in `backends`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) address: SocketAddr,
    pub(super) id: BackendId,
    pub(super) weight: u32,
    pub(super) accepts: bool,
    /// The entry has these values; false after a write that may or may not have happened.
    pub(super) certain: bool,
}

impl Backend {
    pub(super) fn entry(&self, service: ServiceId) -> BackendEntry {
        BackendEntry {
            address: self.address,
            service,
            weight: self.weight,
            accepts: self.accepts,
        }
    }
}
