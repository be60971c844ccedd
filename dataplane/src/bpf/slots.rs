//! Services and their slots: a service names the part of the slot array that is its own.
//!
//! Above, a slot set goes by its service and generation; here both tables share the [`Arena`] that knows where it lies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::MapHandle;

use super::abi::Record;
use super::arena::Arena;
use super::table::BpfTable;
use super::types;
use crate::tables::{
    Generation, ServiceEntry, ServiceId, ServiceKey, Slot, SlotKey, Table, TableError, WriteError,
};

/// Whose slots.
type SlotSet = (ServiceId, Generation);
type Shared = Arc<Mutex<Arena<SlotSet>>>;

/// `struct service`, with its place in the slot array.
#[derive(Clone, Copy)]
struct PlacedService {
    entry: ServiceEntry,
    base: u32,
}

impl Record for PlacedService {
    type Raw = types::service;

    fn to_raw(&self) -> Self::Raw {
        types::service {
            base: self.base,
            ..self.entry.to_raw()
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            entry: ServiceEntry::from_raw(raw)?,
            base: raw.base,
        })
    }
}

fn lock(arena: &Shared) -> MutexGuard<'_, Arena<SlotSet>> {
    arena.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Both tables over their maps.
///
/// # Errors
/// When a map is of another layout or cannot be read.
pub(super) fn service_tables(
    services: MapHandle,
    slots: MapHandle,
) -> Result<(ServiceTable, SlotTable), TableError> {
    let services = BpfTable::<ServiceKey, PlacedService>::new("services", services)?;
    let slots = BpfTable::<u32, Slot>::new("slots", slots)?;
    let mut arena = Arena::new(slots.capacity() as u32);
    for (key, PlacedService { entry, base }) in services.entries()? {
        let set = (entry.id, entry.generation);
        let range = base..base.saturating_add(entry.slots);
        // Several VIPs may lead to one set.
        if entry.slots > 0 && arena.range(set).as_ref() != Some(&range) && !arena.adopt(set, range)
        {
            tracing::warn!(
                "slots of {}:{}/{} overlap others: they are written anew",
                key.address,
                key.port,
                key.protocol
            );
        }
    }
    let arena = Arc::new(Mutex::new(arena));
    Ok((
        ServiceTable {
            services,
            arena: Arc::clone(&arena),
        },
        SlotTable { slots, arena },
    ))
}

/// Map `services`.
pub(super) struct ServiceTable {
    services: BpfTable<ServiceKey, PlacedService>,
    arena: Shared,
}

impl Table<ServiceKey, ServiceEntry> for ServiceTable {
    fn name(&self) -> &'static str {
        self.services.name()
    }

    /// Slots come first: an entry whose slots are not written refuses connections.
    fn write(&mut self, entries: &[(ServiceKey, ServiceEntry)]) -> Result<(), WriteError> {
        let placed: Vec<_> = {
            let arena = lock(&self.arena);
            entries
                .iter()
                .map(|(key, entry)| {
                    let range = arena.range((entry.id, entry.generation));
                    let (base, slots) = range.map_or((0, 0), |r| (r.start, entry.slots));
                    let entry = ServiceEntry { slots, ..*entry };
                    (*key, PlacedService { entry, base })
                })
                .collect()
        };
        self.services.write(&placed)
    }

    fn delete(&mut self, keys: &[ServiceKey]) -> Result<(), TableError> {
        self.services.delete(keys)
    }

    fn get(&self, key: &ServiceKey) -> Result<Option<ServiceEntry>, TableError> {
        Ok(self.services.get(key)?.map(|placed| placed.entry))
    }

    fn entries(&self) -> Result<Vec<(ServiceKey, ServiceEntry)>, TableError> {
        let entries = self.services.entries()?;
        Ok(entries
            .into_iter()
            .map(|(k, placed)| (k, placed.entry))
            .collect())
    }

    fn capacity(&self) -> usize {
        self.services.capacity()
    }
}

/// Map `slots`. A set is written in one call and deleted as a whole: deleting any slot of it frees all.
pub(super) struct SlotTable {
    slots: BpfTable<u32, Slot>,
    arena: Shared,
}

const fn set_of(key: &SlotKey) -> SlotSet {
    (key.service, key.generation)
}

impl SlotTable {
    fn place(&self, key: &SlotKey) -> Option<u32> {
        let range = lock(&self.arena).range(set_of(key))?;
        Some(range.start + key.index).filter(|place| *place < range.end)
    }
}

impl Table<SlotKey, Slot> for SlotTable {
    fn name(&self) -> &'static str {
        self.slots.name()
    }

    fn write(&mut self, entries: &[(SlotKey, Slot)]) -> Result<(), WriteError> {
        let mut placed = Vec::with_capacity(entries.len());
        let mut full = false;
        {
            let mut arena = lock(&self.arena);
            for set in entries.chunk_by(|(a, _), (b, _)| set_of(a) == set_of(b)) {
                let Some((first, _)) = set.first() else {
                    continue;
                };
                let owner = set_of(first);
                let range = arena
                    .range(owner)
                    .filter(|range| range.len() == set.len())
                    .or_else(|| {
                        arena.release(owner);
                        arena.allocate(owner, set.len() as u32)
                    });
                let Some(range) = range else {
                    full = true;
                    break;
                };
                placed.extend(
                    set.iter()
                        .map(|(key, slot)| (range.start + key.index, *slot)),
                );
            }
        }
        self.slots.write(&placed)?;
        if full {
            return Err(WriteError::Full {
                map: self.slots.name(),
                capacity: self.capacity(),
                written: placed.len(),
            });
        }
        Ok(())
    }

    fn delete(&mut self, keys: &[SlotKey]) -> Result<(), TableError> {
        // What stands there is left: nothing leads to it, and who still holds the old service sees whose backends these are.
        let mut arena = lock(&self.arena);
        for set in keys.chunk_by(|a, b| set_of(a) == set_of(b)) {
            if let Some(first) = set.first() {
                arena.release(set_of(first));
            }
        }
        Ok(())
    }

    fn get(&self, key: &SlotKey) -> Result<Option<Slot>, TableError> {
        match self.place(key) {
            Some(place) => self.slots.get(&place),
            None => Ok(None),
        }
    }

    fn entries(&self) -> Result<Vec<(SlotKey, Slot)>, TableError> {
        let arena = lock(&self.arena);
        let mut entries = Vec::new();
        for ((service, generation), range) in arena.owners() {
            for (place, index) in range.zip(0..) {
                if let Some(slot) = self.slots.get(&place)? {
                    let key = SlotKey {
                        service,
                        generation,
                        index,
                    };
                    entries.push((key, slot));
                }
            }
        }
        Ok(entries)
    }

    fn capacity(&self) -> usize {
        lock(&self.arena).capacity() as usize
    }
}
