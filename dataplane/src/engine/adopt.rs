//! What an earlier agent left in the tables.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::Engine;
use super::ids::Ids;
use super::mirror::Mirror;
use super::outside::Outside;
use super::service::{Backend, Service};
use super::sweep::{Garbage, Leaving, NO_SERVICE, OldSlots, Rule};
use super::usage::Usage;
use crate::limits::Ledger;
use crate::tables::{
    BackendEntry, BackendId, BackendLoad, Generation, MapUsage, ServiceEntry, ServiceId,
    ServiceKey, Slot, Table, TableError, Tables,
};

/// Services found at start, by id, until a desired one claims them.
#[derive(Debug, Default)]
pub(super) struct Adopted {
    services: HashMap<ServiceId, Service>,
}

impl Adopted {
    pub(super) fn is_empty(&self) -> bool {
        self.services.is_empty()
    }

    pub(super) fn contains(&self, id: ServiceId) -> bool {
        self.services.contains_key(&id)
    }

    pub(super) fn claim(&mut self, id: ServiceId) -> Option<Service> {
        self.services.remove(&id)
    }
}

/// The tables' content in the engine's terms.
pub(super) struct Found {
    pub(super) mirror: Mirror,
    pub(super) adopted: Adopted,
    pub(super) garbage: Garbage,
    pub(super) usage: Usage,
    pub(super) ids: Ids,
    pub(super) limits: Ledger,
    pub(super) outside: Outside,
    /// Backends whose `loads` entry is missing.
    pub(super) without_load: Vec<BackendId>,
}

type SlotSets = HashMap<(ServiceId, Generation), Vec<(u32, Slot)>>;

pub(super) fn read(tables: &Tables) -> Result<Found, TableError> {
    let vips = tables.services.entries()?;
    let backends = tables.backends.entries()?;
    let slots = tables.slots.entries()?;
    let loads: HashSet<BackendId> = keys(tables.loads.as_ref())?;
    let cursors: HashSet<ServiceId> = keys(tables.cursors.as_ref())?;

    let services = service_ids(&vips, &backends, &slots, &cursors);
    let limits = Ledger::read(tables, &services)?;
    let outside = Outside::read(tables)?;
    let usage = Usage {
        services: usage(tables.services.as_ref(), vips.len()),
        slots: usage(tables.slots.as_ref(), slots.len()),
        backends: usage(tables.backends.as_ref(), backends.len()),
        loads: usage(tables.loads.as_ref(), loads.len()),
        cursors: usage(tables.cursors.as_ref(), cursors.len()),
        settings: usage(tables.settings.as_ref(), limits.usage().0),
        states: usage(tables.states.as_ref(), limits.usage().1),
        source_ranges: usage(tables.source_ranges.as_ref(), outside.len()),
        freed: 0,
    };
    let present: HashSet<BackendId> = backends.iter().map(|(id, _)| *id).collect();
    let ids = Ids::load(
        tables,
        services.last().map_or(0, |id| id.0),
        present
            .iter()
            .chain(&loads)
            .map(|id| id.0)
            .max()
            .unwrap_or(0),
    )?;
    let mut garbage = Garbage::default();
    garbage.closed.extend(loads.difference(&present));
    let without_load = present.difference(&loads).copied().collect();

    let mut sets = slot_sets(slots);
    let mut by_service = group(backends);
    let mut adopted = Adopted::default();
    for id in services {
        let mut service = Service::new(id);
        service.has_cursor = cursors.contains(&id);
        take_current(&mut service, &vips, &mut sets);
        take_backends(
            &mut service,
            by_service.remove(&id).unwrap_or_default(),
            &mut garbage,
        );
        adopted.services.insert(id, service);
    }
    let orphans = by_service.remove(&NO_SERVICE).unwrap_or_default();
    garbage
        .backends
        .extend(orphans.into_iter().map(|b| left(&b)));
    garbage.slots.extend(sets.into_iter().map(old_slots));
    let mut mirror = Mirror::default();
    vips.into_iter()
        .for_each(|(key, entry)| mirror.set(key, entry));
    Ok(Found {
        mirror,
        adopted,
        garbage,
        usage,
        ids,
        limits,
        outside,
        without_load,
    })
}

fn keys<K: Eq + std::hash::Hash, V>(table: &dyn Table<K, V>) -> Result<HashSet<K>, TableError> {
    Ok(table.entries()?.into_iter().map(|(key, _)| key).collect())
}

fn usage<K, V>(table: &dyn Table<K, V>, entries: usize) -> MapUsage {
    MapUsage {
        entries,
        ..MapUsage::of(table)
    }
}

/// Every service that anything belongs to.
fn service_ids(
    vips: &[(ServiceKey, ServiceEntry)],
    backends: &[(BackendId, BackendEntry)],
    slots: &[(crate::tables::SlotKey, Slot)],
    cursors: &HashSet<ServiceId>,
) -> BTreeSet<ServiceId> {
    let of_vips = vips.iter().map(|(_, entry)| entry.id);
    let of_backends = backends.iter().map(|(_, entry)| entry.service);
    let of_backends = of_backends.filter(|id| *id != NO_SERVICE);
    let of_slots = slots.iter().map(|(key, _)| key.service);
    of_vips
        .chain(of_backends)
        .chain(of_slots)
        .chain(cursors.iter().copied())
        .collect()
}

fn slot_sets(slots: Vec<(crate::tables::SlotKey, Slot)>) -> SlotSets {
    let mut sets = SlotSets::new();
    for (key, slot) in slots {
        sets.entry((key.service, key.generation))
            .or_default()
            .push((key.index, slot));
    }
    sets.values_mut()
        .for_each(|s| s.sort_unstable_by_key(|(index, _)| *index));
    sets
}

fn group(
    backends: Vec<(BackendId, BackendEntry)>,
) -> HashMap<ServiceId, Vec<(BackendId, BackendEntry)>> {
    let mut groups: HashMap<_, Vec<_>> = HashMap::new();
    for (id, entry) in backends {
        groups.entry(entry.service).or_default().push((id, entry));
    }
    groups
}

/// The slot set that VIPs refer to is the service's; if a flip was interrupted there are two, and either will do.
fn take_current(service: &mut Service, vips: &[(ServiceKey, ServiceEntry)], sets: &mut SlotSets) {
    let Some((_, entry)) = vips.iter().find(|(_, entry)| entry.id == service.id) else {
        return;
    };
    service.generation = entry.generation;
    service.slots = entry.slots;
    service.policy = entry.policy;
    service.affinity_seconds = entry.affinity_seconds;
    let set = sets
        .remove(&(service.id, entry.generation))
        .unwrap_or_default();
    let complete = set.len() == entry.slots as usize
        && set
            .iter()
            .zip(0..)
            .all(|((index, _), expected)| *index == expected);
    if complete {
        service.adopted_slots = Some(set.into_iter().map(|(_, slot)| slot).collect());
    } else {
        sets.insert((service.id, entry.generation), set);
    }
}

/// One backend for each address: the newest, which is the one that the newest slots name. Others were on their way out.
fn take_backends(
    service: &mut Service,
    mut found: Vec<(BackendId, BackendEntry)>,
    garbage: &mut Garbage,
) {
    found.sort_unstable_by_key(|(id, entry)| {
        (entry.address, !entry.accepts, std::cmp::Reverse(*id))
    });
    for (id, entry) in found {
        if service
            .backends
            .last()
            .is_some_and(|b| b.address == entry.address)
        {
            garbage.backends.push(left(&(id, entry)));
        } else {
            service.backends.push(Backend {
                address: entry.address,
                id,
                weight: entry.weight,
                accepts: entry.accepts,
                certain: true,
            });
        }
    }
}

fn left((id, entry): &(BackendId, BackendEntry)) -> Leaving {
    Leaving {
        id: *id,
        address: entry.address,
        service: entry.service,
        rule: Rule::CloseUnlessWorkload,
    }
}

fn old_slots(
    ((service, generation), set): ((ServiceId, Generation), Vec<(u32, Slot)>),
) -> OldSlots {
    OldSlots {
        service,
        generation,
        indices: set.into_iter().map(|(index, _)| index).collect(),
    }
}

impl Engine {
    /// A kill between two writes may have left a backend without its counts. Without room for them it is only not counted.
    pub(super) fn repair_loads(&mut self, without: &[BackendId]) {
        if without.is_empty() {
            return;
        }
        let entries: Vec<_> = without
            .iter()
            .map(|id| (*id, BackendLoad::default()))
            .collect();
        match self.tables.loads.write(&entries) {
            Ok(()) => self.usage.loads.add(entries.len()),
            Err(e) => tracing::warn!("some backends' connections are not counted: {e}"),
        }
    }

    /// Nobody wants what is left of the earlier agent's services.
    pub(super) fn discard_adopted(&mut self) {
        for (_, service) in std::mem::take(&mut self.adopted).services {
            self.discard(service);
        }
    }
}
