//! Pointing VIPs at the slots that are written, and taking away those that nobody wants.

use weft_proto::model::Side;

use super::commit::reason;
use super::service::ServiceName;
use super::{Engine, Phase};
use crate::tables::{ServiceEntry, ServiceKey};

impl Engine {
    /// Writes the entries of all VIPs of these services that are not as they should be.
    pub(super) fn flip(&mut self, services: &[ServiceName]) {
        let outside = self.outside_vips(services);
        let unguarded = self.guard(&outside);
        let mut changes = self.changed_vips(services);
        changes.retain(|(key, _)| !unguarded.contains(key));
        self.write_vips(changes);
        self.unguard(&outside);
        self.open_to_outside();
    }

    fn write_vips(&mut self, changes: Vec<(ServiceKey, ServiceEntry)>) {
        let mut batch = Vec::with_capacity(changes.len());
        let mut room = self
            .usage
            .services
            .capacity
            .saturating_sub(self.mirror.len());
        for (key, entry) in changes {
            let is_new = self.mirror.get(&key).is_none();
            if is_new && room == 0 {
                self.vip_failures.insert(key, self.usage.services.refuse());
            } else {
                room -= usize::from(is_new);
                batch.push((key, entry));
            }
        }
        if batch.is_empty() {
            return;
        }
        match self.tables.services.write(&batch) {
            Ok(()) => batch.into_iter().for_each(|(k, e)| self.flipped(k, e)),
            Err(_) => batch.into_iter().for_each(|(k, e)| self.flip_one(k, e)),
        }
    }

    fn outside_vips(&self, services: &[ServiceName]) -> Vec<ServiceKey> {
        let vips = &self.resources.vips;
        let of_services = services.iter().filter_map(|name| vips.get(name)).flatten();
        let outside = of_services.filter(|key| key.side == Side::Outside);
        outside.copied().collect()
    }

    fn changed_vips(&self, services: &[ServiceName]) -> Vec<(ServiceKey, ServiceEntry)> {
        let mut changes = Vec::new();
        for name in services {
            let Some(service) = self.services.get(name) else {
                continue;
            };
            let entry = service.entry();
            let vips = self.resources.vips.get(name).into_iter().flatten();
            let changed = vips.filter(|vip| self.mirror.get(vip) != Some(&entry));
            changes.extend(changed.map(|vip| (*vip, entry)));
        }
        changes
    }

    fn flipped(&mut self, key: ServiceKey, entry: ServiceEntry) {
        self.vip_failures.remove(&key);
        self.mirror.set(key, entry);
        self.usage.services.entries = self.mirror.len();
    }

    fn flip_one(&mut self, key: ServiceKey, entry: ServiceEntry) {
        match self.tables.services.write(&[(key, entry)]) {
            Ok(()) => self.flipped(key, entry),
            Err(e) => {
                let reason = reason(&e, &mut self.usage.services);
                // The batch before may have written it.
                let found = self.tables.services.get(&key).ok().flatten();
                if let Some(found) = found {
                    self.flipped(key, found);
                }
                if found != Some(entry) {
                    self.vip_failures.insert(key, reason);
                }
            }
        }
    }

    /// Deletes VIPs that no listener wants, once everything is known.
    pub(super) fn drop_unowned(&mut self) {
        if self.phase != Phase::Settled || self.unowned.is_empty() {
            return;
        }
        self.forget_owned();
        let keys: Vec<ServiceKey> = self.unowned.iter().copied().collect();
        self.vip_failures
            .retain(|key, _| self.resources.assignments.contains_key(key));
        match self.tables.services.delete(&keys) {
            Ok(()) => {
                keys.iter().for_each(|key| self.mirror.remove(key));
                self.usage.services.entries = self.mirror.len();
                self.usage.freed += keys.len() as u64;
                self.unowned.clear();
                self.unguard(&keys);
                self.open_to_outside();
            }
            Err(e) => tracing::warn!("VIPs that are gone stay for now: {e}"),
        }
    }

    /// Somebody wants these after all.
    pub(super) fn forget_owned(&mut self) {
        let assignments = &self.resources.assignments;
        self.unowned.retain(|key| !assignments.contains_key(key));
    }

    /// Discards services that no VIP leads to.
    pub(super) fn discard_unused(&mut self, names: &[ServiceName]) {
        if self.phase != Phase::Settled {
            return;
        }
        for name in names {
            if !self.resources.vips.contains_key(name)
                && let Some(service) = self.services.remove(name)
            {
                self.service_names.remove(&service.id);
                service
                    .backends
                    .iter()
                    .for_each(|b| self.drains.forget(b.id));
                self.failures.remove(name);
                self.discard(service);
            }
        }
    }
}
