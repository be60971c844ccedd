//! Carries plans out, all services of an update together.

use std::collections::BTreeSet;
use std::time::Instant;

use super::Engine;
use super::plan::Plan;
use super::service::{Service, ServiceName};
use super::sweep::{Leaving, OldSlots, Rule};
use crate::tables::{
    BackendEntry, BackendId, BackendLoad, MapUsage, Slot, SlotKey, Table, TableError, WriteError,
};

/// Services without room that are tried again in one go after something was deleted; the others wait for the next tick.
const RETRIES: usize = 64;

/// Whether a service has a kernel id.
enum Born {
    /// It has none, and needs none for now.
    Not,
    /// One that was in use before.
    Before,
    /// One that is not stored yet.
    Now,
}

/// Backends of a service to be written after the flip.
type After = (ServiceName, Vec<(BackendId, BackendEntry)>);

/// A full sync goes through the kernel in parts: large enough for batches, small enough that neither memory nor the room for
/// two generations side by side grows with the number of services.
const SERVICES_PER_ROUND: usize = 512;

impl Engine {
    /// Brings these services to what is desired.
    pub(super) fn reconcile(&mut self, services: BTreeSet<ServiceName>, now: Instant) {
        let mut todo = services;
        loop {
            let freed = self.usage.freed;
            let names: Vec<ServiceName> = todo.into_iter().collect();
            for part in names.chunks(SERVICES_PER_ROUND) {
                self.round(part, now);
                self.drop_unowned();
                self.discard_unused(part);
                self.sweep();
            }
            // Also when no service is concerned.
            self.drop_unowned();
            self.sweep();
            // What was deleted may be the room that something else waits for.
            todo = self.some_failed_services();
            if self.usage.freed == freed || todo.is_empty() {
                break;
            }
        }
    }

    /// Something was deleted: there may be room for what found none.
    pub(super) fn retry_some(&mut self, now: Instant) {
        let failed = self.some_failed_services();
        if !failed.is_empty() {
            self.reconcile(failed, now);
        }
    }

    fn some_failed_services(&self) -> BTreeSet<ServiceName> {
        self.failed_services().into_iter().take(RETRIES).collect()
    }

    fn round(&mut self, names: &[ServiceName], now: Instant) {
        let mut plans = Vec::new();
        let mut flips = Vec::new();
        let mut born = Vec::new();
        for name in names {
            self.failures.remove(name);
            match self.materialize(name) {
                Born::Not => continue,
                Born::Now => born.push(name.clone()),
                Born::Before => {}
            }
            plans.extend(self.plan(name));
            flips.push(name.clone());
        }
        self.check_room(&mut plans);
        self.persist_ids(&mut plans, &born);
        self.write_backends(&mut plans);
        self.write_cursors(&mut plans);
        self.write_settings(&mut plans);
        self.write_slots(&mut plans);
        let after = self.conclude(plans, now);
        self.flip(&flips);
        self.write_after(after);
    }

    /// Makes sure that a service with VIPs has a kernel id: that of an earlier agent for the same VIP, or a new one.
    fn materialize(&mut self, name: &ServiceName) -> Born {
        let Some(vips) = self.resources.vips.get(name) else {
            return Born::Not;
        };
        if self.services.contains_key(name) {
            return Born::Before;
        }
        let wait = matches!(
            self.resources.target(&name.cluster),
            super::resources::Target::Missing | super::resources::Target::Pending
        );
        let adopted = vips.iter().find_map(|vip| {
            let id = self.mirror.get(vip)?.id;
            self.adopted.contains(id).then_some(id)
        });
        let starting = self.phase == super::Phase::Starting;
        let settled = self.phase == super::Phase::Settled;
        if wait && (starting || (adopted.is_some() && !settled)) {
            return Born::Not;
        }
        let (service, born) = match adopted.and_then(|id| self.adopted.claim(id)) {
            Some(service) => (service, Born::Before),
            None => (Service::new(self.service_id()), Born::Now),
        };
        self.service_names.insert(service.id, name.clone());
        self.services.insert(name.clone(), service);
        born
    }

    /// Refuses beforehand what cannot fit, so that ids and writes are not wasted on it.
    fn check_room(&mut self, plans: &mut [Plan]) {
        let (mut backends, mut slots) = (0, 0);
        for plan in plans {
            let more_backends = plan.fresh.len();
            let more_slots = plan.layout.as_ref().map_or(0, |l| l.slots.len());
            if !self.usage.backends.has_room(backends + more_backends) {
                plan.failed = Some(self.usage.backends.refuse());
            } else if !self.usage.loads.has_room(backends + more_backends) {
                plan.failed = Some(self.usage.loads.refuse());
            } else if !self.usage.slots.has_room(slots + more_slots) {
                plan.failed = Some(self.usage.slots.refuse());
            } else {
                backends += more_backends;
                slots += more_slots;
            }
            if plan.failed.is_some() {
                self.ids.give_back(plan.fresh.drain(..));
            }
        }
    }

    /// An id that is not stored must not be used: whoever wants one waits.
    fn persist_ids(&mut self, plans: &mut [Plan], born: &[ServiceName]) {
        let Err(e) = self.ids.persist(self.tables.ids.as_mut()) else {
            return;
        };
        for name in born {
            if let Some(service) = self.services.remove(name) {
                self.service_names.remove(&service.id);
            }
            self.failures.insert(name.clone(), e.to_string());
        }
        for plan in plans.iter_mut().filter(|p| p.failed.is_none()) {
            if !plan.fresh.is_empty() || born.contains(&plan.name) {
                plan.failed = Some(e.to_string());
                self.ids.give_back(plan.fresh.drain(..));
            }
        }
    }

    /// Counts first: then no backend is ever chosen without them.
    fn write_backends(&mut self, plans: &mut [Plan]) {
        let writes = Writes {
            entries: &|plan| {
                let zero = BackendLoad::default();
                plan.fresh.iter().map(|id| (*id, zero)).collect()
            },
            new: &|plan| plan.fresh.clone(),
        };
        let failed = writes.write(self.tables.loads.as_mut(), &mut self.usage.loads, plans);
        failed
            .into_iter()
            .for_each(|i| self.undo_backends(&mut plans[i]));
        for plan in plans.iter_mut().filter(|p| p.failed.is_none()) {
            plan.counted.loads = plan.fresh.len();
            self.usage.loads.add(plan.fresh.len());
        }

        let writes = Writes {
            entries: &|plan| plan.before.clone(),
            new: &|plan| plan.fresh.clone(),
        };
        let failed = writes.write(
            self.tables.backends.as_mut(),
            &mut self.usage.backends,
            plans,
        );
        failed
            .into_iter()
            .for_each(|i| self.undo_backends(&mut plans[i]));
        for plan in plans.iter_mut().filter(|p| p.failed.is_none()) {
            plan.counted.backends = plan.fresh.len();
            self.usage.backends.add(plan.fresh.len());
        }
    }

    fn write_cursors(&mut self, plans: &mut [Plan]) {
        for plan in plans.iter_mut().filter(|p| p.failed.is_none()) {
            if plan.needs_cursor {
                match self.tables.cursors.write(&[(plan.id, 0)]) {
                    Ok(()) => {
                        self.usage.cursors.add(1);
                        if let Some(service) = self.services.get_mut(&plan.name) {
                            service.has_cursor = true;
                        }
                    }
                    Err(e) => {
                        plan.failed = Some(reason(&e, &mut self.usage.cursors));
                        self.undo_backends(plan);
                    }
                }
            }
        }
    }

    fn write_settings(&mut self, plans: &mut [Plan]) {
        for plan in plans.iter_mut().filter(|p| p.failed.is_none()) {
            if plan.settings.is_empty() {
                continue;
            }
            let written = self.limits.write(&mut self.tables, plan.id, plan.settings);
            if let Err(e) = written {
                let full = match &e {
                    WriteError::Full { map, .. } if *map == self.usage.states.name => {
                        &mut self.usage.states
                    }
                    _ => &mut self.usage.settings,
                };
                plan.failed = Some(reason(&e, full));
                self.undo_backends(plan);
            }
        }
        self.count_limits();
    }

    pub(super) fn count_limits(&mut self) {
        (self.usage.settings.entries, self.usage.states.entries) = self.limits.usage();
    }

    fn write_slots(&mut self, plans: &mut [Plan]) {
        let writes = Writes {
            entries: &slot_entries,
            new: &|plan| slot_entries(plan).into_iter().map(|(key, _)| key).collect(),
        };
        let failed = writes.write(self.tables.slots.as_mut(), &mut self.usage.slots, plans);
        for index in failed {
            let plan = &mut plans[index];
            if let Err(e) = self.tables.slots.delete(&(writes.new)(plan)) {
                self.leave_slots(plan, &e);
            }
            self.undo_backends(plan);
        }
        for plan in plans.iter().filter(|p| p.failed.is_none()) {
            let slots = plan.layout.as_ref().map_or(0, |l| l.slots.len());
            self.usage.slots.add(slots);
        }
    }

    /// Half-written slots that could not be deleted again: the sweep tries later.
    fn leave_slots(&mut self, plan: &Plan, error: &TableError) {
        tracing::warn!("slots of {} stay for now: {error}", plan.name);
        if let Some(layout) = &plan.layout {
            let count = layout.slots.len();
            self.usage.slots.add(count);
            self.garbage.slots.push(OldSlots {
                service: plan.id,
                generation: layout.generation,
                indices: (0..).take(count).collect(),
            });
        }
    }

    /// Takes a failed plan's backends back: nothing points to the new ones yet, and the old ones get their old values.
    fn undo_backends(&mut self, plan: &mut Plan) {
        let counted = std::mem::take(&mut plan.counted);
        let fresh = std::mem::take(&mut plan.fresh);
        let deleted = self
            .tables
            .backends
            .delete(&fresh)
            .and_then(|()| self.tables.loads.delete(&fresh));
        match deleted {
            Ok(()) => {
                self.usage.backends.remove(counted.backends);
                self.usage.loads.remove(counted.loads);
                self.ids.give_back(fresh);
            }
            Err(e) => {
                tracing::warn!("backends of {} stay for now: {e}", plan.name);
                self.usage.backends.add(fresh.len() - counted.backends);
                self.usage.loads.add(fresh.len() - counted.loads);
                self.leave_backends(plan, &fresh);
            }
        }
        if let Err(e) = self.tables.backends.write(&plan.undo) {
            tracing::warn!("backends of {} are uncertain: {e}", plan.name);
        }
        self.doubt(plan);
    }

    fn leave_backends(&mut self, plan: &Plan, fresh: &[BackendId]) {
        let of_fresh = plan.before.iter().filter(|(id, _)| fresh.contains(id));
        let leaving = of_fresh.map(|(id, entry)| Leaving {
            id: *id,
            address: entry.address,
            service: plan.id,
            rule: Rule::Nothing,
        });
        self.garbage.backends.extend(leaving);
    }

    /// The next plan writes again what may or may not have been written.
    fn doubt(&mut self, plan: &Plan) {
        let Some(service) = self.services.get_mut(&plan.name) else {
            return;
        };
        for (id, _) in &plan.undo {
            if let Some(backend) = service.backends.iter_mut().find(|b| b.id == *id) {
                backend.certain = false;
            }
        }
    }

    /// The engine's own picture of services whose new slots are all written. Returns what is to be written after the flip.
    fn conclude(&mut self, plans: Vec<Plan>, now: Instant) -> Vec<After> {
        let mut after = Vec::new();
        for plan in plans {
            if let Some(reason) = plan.failed {
                self.failures.insert(plan.name, reason);
                continue;
            }
            let Some(service) = self.services.get_mut(&plan.name) else {
                continue;
            };
            service.policy = plan.policy;
            service.affinity_seconds = plan.affinity_seconds;
            service.unaccelerated = plan.unaccelerated;
            service.node_only = plan.node_only;
            service.settings = plan.settings;
            service.layer7 = plan.layer7;
            if plan.settings.is_empty() {
                self.limits.unset(plan.id);
            }
            service.backends = plan.backends;
            if let Some(layout) = plan.layout {
                self.garbage.slots.extend(service.replace_slots(
                    layout.generation,
                    layout.slots.len(),
                    layout.fingerprint,
                ));
            }
            for gone in &plan.leaving {
                self.drains.forget(gone.id);
                if let Ok(Some(load)) = self.tables.loads.get(&gone.id) {
                    service.retired_total = service.retired_total.saturating_add(load.total);
                }
            }
            self.drains.update(&plan.drains, now);
            self.garbage.backends.extend(plan.leaving);
            if !plan.after.is_empty() {
                after.push((plan.name, plan.after));
            }
        }
        after
    }

    fn write_after(&mut self, after: Vec<After>) {
        let all: Vec<_> = after
            .iter()
            .flat_map(|(_, entries)| entries)
            .copied()
            .collect();
        if all.is_empty() {
            return;
        }
        let Err(e) = self.tables.backends.write(&all) else {
            return;
        };
        for (name, entries) in after {
            if let Some(service) = self.services.get_mut(&name) {
                for backend in &mut service.backends {
                    backend.certain &= !entries.iter().any(|(id, _)| *id == backend.id);
                }
            }
            self.failures.insert(name, e.to_string());
        }
    }
}

fn slot_entries(plan: &Plan) -> Vec<(SlotKey, Slot)> {
    let Some(layout) = &plan.layout else {
        return Vec::new();
    };
    let key = |index| SlotKey {
        service: plan.id,
        generation: layout.generation,
        index,
    };
    (0..).map(key).zip(layout.slots.iter().copied()).collect()
}

/// What plans write to one table.
struct Writes<'a, K, V> {
    entries: &'a dyn Fn(&Plan) -> Vec<(K, V)>,
    /// Keys that are only there because of the plan.
    new: &'a dyn Fn(&Plan) -> Vec<K>,
}

impl<K, V> Writes<'_, K, V> {
    /// Writes the entries of all plans that have not failed, in one batch if that goes, else plan by plan. Returns the indices
    /// of plans that failed here; their caller undoes them.
    fn write(
        &self,
        table: &mut dyn Table<K, V>,
        usage: &mut MapUsage,
        plans: &mut [Plan],
    ) -> Vec<usize> {
        let alive = plans.iter().filter(|p| p.failed.is_none());
        let batch: Vec<(K, V)> = alive.flat_map(self.entries).collect();
        if batch.is_empty() || table.write(&batch).is_ok() {
            return Vec::new();
        }
        drop(batch);
        let mut failed = Vec::new();
        for (index, plan) in plans.iter_mut().enumerate() {
            if plan.failed.is_none()
                && let Err(e) = table.write(&(self.entries)(plan))
            {
                plan.failed = Some(reason(&e, usage));
                failed.push(index);
                // Room for the plans that follow; a failure here shows again when the plan is undone.
                let _ = table.delete(&(self.new)(plan));
            }
        }
        failed
    }
}

pub(super) fn reason(error: &WriteError, usage: &mut MapUsage) -> String {
    if matches!(error, WriteError::Full { .. }) {
        usage.full = usage.full.saturating_add(1);
    }
    error.to_string()
}
