//! What is on its way out of the tables.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use super::service::Service;
use super::{Closer, Engine, Phase};
use crate::tables::{BackendEntry, BackendId, Generation, ServiceId, SlotKey};

/// Whose the backends are that have outlived their service: no service has this id.
pub(super) const NO_SERVICE: ServiceId = ServiceId(0);

fn orphan_entry(address: SocketAddr) -> BackendEntry {
    BackendEntry {
        address,
        service: NO_SERVICE,
        weight: 1,
        accepts: false,
    }
}

/// A slot set that no service uses any more, or soon none.
#[derive(Debug)]
pub(super) struct OldSlots {
    pub(super) service: ServiceId,
    pub(super) generation: Generation,
    pub(super) indices: Vec<u32>,
}

/// What happens to the connections of a backend that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// It was taken out of its endpoints: they end.
    Close,
    /// Its service went, which says nothing about the backend: they live while a workload has the address.
    CloseUnlessWorkload,
    /// Nothing ever connected to it.
    Nothing,
}

/// A backend on its way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) id: BackendId,
    pub(super) address: SocketAddr,
    pub(super) service: ServiceId,
    pub(super) rule: Rule,
}

/// To be deleted, in this order.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    pub(super) slots: Vec<OldSlots>,
    pub(super) cursors: Vec<ServiceId>,
    pub(super) backends: Vec<Leaving>,
    /// No longer in `backends`, still in `loads`: connections to be closed.
    pub(super) closed: Vec<BackendId>,
    /// In `loads` only, and nothing to close.
    pub(super) loads: Vec<BackendId>,
    /// Listed backends, drained for too long: connections to be closed, entries stay.
    pub(super) drained: Vec<BackendId>,
    /// Backends without a service whose connections live on.
    pub(super) orphans: HashMap<IpAddr, Vec<Leaving>>,
}

impl Garbage {
    /// Nothing is waiting to be deleted. Orphans wait for their workload instead.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
            && self.cursors.is_empty()
            && self.backends.is_empty()
            && self.loads.is_empty()
    }

    pub(super) fn mentions(&self, id: ServiceId) -> bool {
        self.slots.iter().any(|s| s.service == id)
            || self.cursors.contains(&id)
            || self.backends.iter().any(|b| b.service == id)
    }

    /// Generations of a service that are not wholly deleted yet.
    pub(super) fn has_generation(&self, service: ServiceId, generation: Generation) -> bool {
        self.slots
            .iter()
            .any(|s| s.service == service && s.generation == generation)
    }
}

impl Engine {
    /// All that a service has, once no VIP leads to it.
    pub(super) fn discard(&mut self, service: Service) {
        if service.slots > 0 && service.owns_slots() {
            self.garbage.slots.push(OldSlots {
                service: service.id,
                generation: service.generation,
                indices: (0..service.slots).collect(),
            });
        }
        if service.has_cursor {
            self.garbage.cursors.push(service.id);
        }
        self.limits.discard(service.id);
        let leaving = service.backends.iter().map(|b| Leaving {
            id: b.id,
            address: b.address,
            service: service.id,
            rule: Rule::CloseUnlessWorkload,
        });
        self.garbage.backends.extend(leaving);
    }

    /// Deletes what nothing refers to any more; what cannot be deleted now stays for the next time.
    pub(super) fn sweep(&mut self) {
        if self.phase != Phase::Settled {
            return;
        }
        self.sweep_slots();
        self.sweep_cursors();
        self.sweep_limits();
        self.sweep_backends();
        self.sweep_loads();
    }

    fn sweep_slots(&mut self) {
        let (stay, go): (Vec<_>, Vec<_>) = std::mem::take(&mut self.garbage.slots)
            .into_iter()
            .partition(|s| self.mirror.refers_to(s.service, s.generation));
        self.garbage.slots = stay;
        let keys: Vec<SlotKey> = go.iter().flat_map(slot_keys).collect();
        if keys.is_empty() {
            return;
        }
        match self.tables.slots.delete(&keys) {
            Ok(()) => {
                self.usage.slots.remove(keys.len());
                self.usage.freed += keys.len() as u64;
            }
            Err(e) => {
                tracing::warn!("old slots stay for now: {e}");
                self.garbage.slots.extend(go);
            }
        }
    }

    fn sweep_cursors(&mut self) {
        let gone = std::mem::take(&mut self.garbage.cursors);
        if gone.is_empty() {
            return;
        }
        match self.tables.cursors.delete(&gone) {
            Ok(()) => {
                self.usage.cursors.remove(gone.len());
                self.usage.freed += gone.len() as u64;
            }
            Err(e) => {
                tracing::warn!("old round-robin positions stay for now: {e}");
                self.garbage.cursors = gone;
            }
        }
    }

    fn sweep_limits(&mut self) {
        if !self.limits.has_leftovers() {
            return;
        }
        match self.limits.sweep(&mut self.tables, self.mirror.values()) {
            Ok(freed) => self.usage.freed += freed as u64,
            Err(e) => tracing::warn!("limits that nobody wants stay for now: {e}"),
        }
        self.count_limits();
    }

    fn sweep_backends(&mut self) {
        // Slots that are still there may name them.
        let busy: HashSet<ServiceId> = self.garbage.slots.iter().map(|s| s.service).collect();
        let (stay, go): (Vec<_>, Vec<_>) = std::mem::take(&mut self.garbage.backends)
            .into_iter()
            .partition(|b| busy.contains(&b.service));
        self.garbage.backends = stay;
        let (orphans, go): (Vec<_>, Vec<_>) = go.into_iter().partition(|b| {
            b.rule == Rule::CloseUnlessWorkload && self.resources.knows_address(b.address.ip())
        });
        self.orphan(orphans);
        if go.is_empty() {
            return;
        }
        let ids: Vec<BackendId> = go.iter().map(|b| b.id).collect();
        match self.tables.backends.delete(&ids) {
            Ok(()) => {
                self.usage.backends.remove(ids.len());
                self.usage.freed += ids.len() as u64;
                for backend in go {
                    match backend.rule {
                        Rule::Nothing => self.garbage.loads.push(backend.id),
                        Rule::Close | Rule::CloseUnlessWorkload => {
                            self.garbage.closed.push(backend.id);
                        }
                    }
                }
            }
            Err(e) => {
                tracing::warn!("backends that are gone stay for now: {e}");
                self.garbage.backends.extend(go);
            }
        }
    }

    /// Connections live on, but nobody is sent there any more; the entry says so to the next agent as well.
    fn orphan(&mut self, backends: Vec<Leaving>) {
        let entries: Vec<(BackendId, BackendEntry)> = backends
            .iter()
            .filter(|b| b.service != NO_SERVICE)
            .map(|b| (b.id, orphan_entry(b.address)))
            .collect();
        if !entries.is_empty()
            && let Err(e) = self.tables.backends.write(&entries)
        {
            tracing::warn!("backends without a service stay as they are for now: {e}");
            self.garbage.backends.extend(backends);
            return;
        }
        for mut orphan in backends {
            orphan.service = NO_SERVICE;
            let home = self.garbage.orphans.entry(orphan.address.ip());
            home.or_default().push(orphan);
        }
    }

    fn sweep_loads(&mut self) {
        let gone = std::mem::take(&mut self.garbage.loads);
        if gone.is_empty() {
            return;
        }
        match self.tables.loads.delete(&gone) {
            Ok(()) => {
                self.usage.loads.remove(gone.len());
                self.usage.freed += gone.len() as u64;
            }
            Err(e) => {
                tracing::warn!("connection counts of gone backends stay for now: {e}");
                self.garbage.loads = gone;
            }
        }
    }

    /// A workload went: orphans at an address that nobody has any more go too.
    pub(super) fn release_orphans(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            if !self.resources.knows_address(*address)
                && let Some(orphans) = self.garbage.orphans.remove(address)
            {
                self.garbage.backends.extend(orphans);
            }
        }
    }

    /// Hands the backends whose connections must end to `closer`. Separate from applying, so that a storm of changes closes in
    /// batches and never holds up a write.
    pub fn close_gone(&mut self, closer: &mut dyn Closer, now: Instant) {
        // Nothing is deleted, nothing closed before everything is known.
        if self.phase != Phase::Settled {
            return;
        }
        // Room that becomes free can let other services go over to new backends, which leaves their old ones to close.
        while !self.garbage.closed.is_empty() || !self.garbage.drained.is_empty() {
            let gone = std::mem::take(&mut self.garbage.closed);
            let mut all = std::mem::take(&mut self.garbage.drained);
            all.extend(&gone);
            closer.close(all);
            self.garbage.loads.extend(gone);
            let freed = self.usage.freed;
            self.sweep_loads();
            if self.usage.freed > freed {
                self.retry_some(now);
            }
        }
    }
}

fn slot_keys(old: &OldSlots) -> impl Iterator<Item = SlotKey> + '_ {
    old.indices.iter().map(|index| SlotKey {
        service: old.service,
        generation: old.generation,
        index: *index,
    })
}
