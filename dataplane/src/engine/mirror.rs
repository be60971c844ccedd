//! What stands in `services`, known without asking the kernel.

use std::collections::{BTreeMap, HashMap};

use weft_proto::model::Side;

use crate::tables::{Generation, ServiceEntry, ServiceId, ServiceKey};

/// Copy of the table, and which slot sets it refers to.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    entries: BTreeMap<ServiceKey, ServiceEntry>,
    references: HashMap<(ServiceId, Generation), u32>,
    /// VIPs for clients outside.
    outside: usize,
}

impl Mirror {
    pub(super) fn get(&self, key: &ServiceKey) -> Option<&ServiceEntry> {
        self.entries.get(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ServiceKey> {
        self.entries.keys()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &ServiceEntry> {
        self.entries.values()
    }

    pub(super) const fn has_outside(&self) -> bool {
        self.outside > 0
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn set(&mut self, key: ServiceKey, entry: ServiceEntry) {
        let old = self.entries.insert(key, entry);
        self.outside += usize::from(key.side == Side::Outside && old.is_none());
        *self
            .references
            .entry((entry.id, entry.generation))
            .or_default() += 1;
        self.release(old);
    }

    pub(super) fn remove(&mut self, key: &ServiceKey) {
        let old = self.entries.remove(key);
        self.outside -= usize::from(key.side == Side::Outside && old.is_some());
        self.release(old);
    }

    /// Whether some VIP sends its clients to these slots.
    pub(super) fn refers_to(&self, service: ServiceId, generation: Generation) -> bool {
        self.references.contains_key(&(service, generation))
    }

    fn release(&mut self, old: Option<ServiceEntry>) {
        let Some(old) = old else { return };
        let at = (old.id, old.generation);
        if let Some(count) = self.references.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.references.remove(&at);
            }
        }
    }
}
