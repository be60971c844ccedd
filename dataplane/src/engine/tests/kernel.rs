//! Tables in memory that are looked at after each operation, as the kernel would look, and that fail on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::engine::Closer;
use crate::tables::memory::MemoryTable;
use crate::tables::watched::{Faults, Watcher, watched};
use crate::tables::{
    AllocatedIds, BackendEntry, BackendId, BackendLoad, LetIn, NatSettings, ServiceEntry,
    ServiceId, ServiceKey, ServiceSettings, ServiceState, Slot, SlotKey, SourceRangeKey, Tables,
};

/// Sizes of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) services: usize,
    pub(super) slots: usize,
    pub(super) backends: usize,
}

impl Sizes {
    pub(super) const AMPLE: Self = Self {
        services: 1_000,
        slots: 100_000,
        backends: 10_000,
    };
}

/// The tables' content, shared between engine and test.
#[derive(Clone)]
pub(super) struct Kernel {
    pub(super) services: MemoryTable<ServiceKey, ServiceEntry>,
    pub(super) slots: MemoryTable<SlotKey, Slot>,
    pub(super) backends: MemoryTable<BackendId, BackendEntry>,
    pub(super) loads: MemoryTable<BackendId, BackendLoad>,
    pub(super) cursors: MemoryTable<ServiceId, u64>,
    pub(super) settings: MemoryTable<ServiceId, ServiceSettings>,
    pub(super) states: MemoryTable<ServiceId, ServiceState>,
    pub(super) source_ranges: MemoryTable<SourceRangeKey, LetIn>,
    pub(super) nat: MemoryTable<u32, NatSettings>,
    pub(super) ids: MemoryTable<u32, AllocatedIds>,
    control: Arc<Mutex<Control>>,
}

#[derive(Default)]
struct Control {
    faults: Faults,
    violations: Vec<String>,
    operations: usize,
    closed: Vec<BackendId>,
}

/// Everything in the tables, for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dump {
    pub(super) services: BTreeMap<ServiceKey, ServiceEntry>,
    pub(super) slots: BTreeMap<SlotKey, Slot>,
    pub(super) backends: BTreeMap<BackendId, BackendEntry>,
    loads: BTreeMap<BackendId, BackendLoad>,
    cursors: BTreeMap<ServiceId, u64>,
    settings: BTreeMap<ServiceId, ServiceSettings>,
    states: BTreeMap<ServiceId, ServiceState>,
    source_ranges: BTreeMap<SourceRangeKey, LetIn>,
    nat: BTreeMap<u32, NatSettings>,
    ids: BTreeMap<u32, AllocatedIds>,
}

impl Kernel {
    pub(super) fn new(sizes: Sizes) -> Self {
        Self {
            services: MemoryTable::new("services", sizes.services),
            slots: MemoryTable::new("slots", sizes.slots),
            backends: MemoryTable::new("backends", sizes.backends),
            loads: MemoryTable::new("backend_loads", sizes.backends),
            cursors: MemoryTable::new("cursors", sizes.services),
            settings: MemoryTable::new("service_settings", sizes.services),
            states: MemoryTable::new("service_states", sizes.services),
            source_ranges: MemoryTable::new("source_ranges", sizes.services),
            nat: MemoryTable::new("nat_settings", 1),
            ids: MemoryTable::new("ids", 1),
            control: Arc::default(),
        }
    }

    pub(super) fn tables(&self) -> Tables {
        Tables {
            services: watched(self, &self.services),
            slots: watched(self, &self.slots),
            backends: watched(self, &self.backends),
            loads: watched(self, &self.loads),
            cursors: watched(self, &self.cursors),
            settings: watched(self, &self.settings),
            states: watched(self, &self.states),
            health: Box::new(MemoryTable::new("backend_health", 0)),
            source_ranges: watched(self, &self.source_ranges),
            nat: watched(self, &self.nat),
            ids: watched(self, &self.ids),
        }
    }

    pub(super) fn dump(&self) -> Dump {
        Dump {
            services: self.services.with(|m| m.clone()),
            slots: self.slots.with(|m| m.clone()),
            backends: self.backends.with(|m| m.clone()),
            loads: self.loads.with(|m| m.clone()),
            cursors: self.cursors.with(|m| m.clone()),
            settings: self.settings.with(|m| m.clone()),
            states: self.states.with(|m| m.clone()),
            source_ranges: self.source_ranges.with(|m| m.clone()),
            nat: self.nat.with(|m| m.clone()),
            ids: self.ids.with(|m| m.clone()),
        }
    }

    fn control<R>(&self, look: impl FnOnce(&mut Control) -> R) -> R {
        look(
            &mut self
                .control
                .lock()
                .expect("no test panics while it holds this"),
        )
    }

    pub(super) fn set_faults(&self, faults: impl IntoIterator<Item = Option<usize>>) {
        self.control(|c| c.faults.set(faults));
    }

    pub(super) fn operations(&self) -> usize {
        self.control(|c| c.operations)
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.control(|c| c.violations.clone())
    }

    pub(super) fn take_closed(&self) -> BTreeSet<BackendId> {
        self.control(|c| std::mem::take(&mut c.closed))
            .into_iter()
            .collect()
    }

    /// Where a connection to `vip` can land and with which share; `None`: not translated at all.
    pub(super) fn landing(&self, vip: &ServiceKey) -> Option<BTreeMap<SocketAddr, f64>> {
        let entry = self.services.with(|m| m.get(vip).copied())?;
        let mut shares = BTreeMap::new();
        for index in 0..entry.slots {
            let key = SlotKey {
                service: entry.id,
                generation: entry.generation,
                index,
            };
            let slot = self.slots.with(|m| m[&key]);
            let first = (f64::from(slot.threshold) + 1.0) / 4_294_967_296.0;
            for (id, share) in [(slot.backend, first), (slot.alias, 1.0 - first)] {
                if share > 0.0 {
                    let address = self.backends.with(|m| m[&id].address);
                    *shares.entry(address).or_default() += share / f64::from(entry.slots);
                }
            }
        }
        Some(shares)
    }

    /// How many connections the service at `vip` may have.
    pub(super) fn limit(&self, vip: &ServiceKey) -> Option<u32> {
        let entry = self.services.with(|m| m.get(vip).copied())?;
        let settings = self.settings.with(|m| m.get(&entry.id).copied());
        let wanted = entry.flags.need_settings();
        settings.filter(|_| wanted).map(|s| s.max_connections)
    }

    /// What a connect that happens now would stumble over.
    fn check(&self, after: &str) {
        let services = self.services.with(|m| m.clone());
        let mut wrong = Vec::new();
        self.slots.with(|slots| {
            self.backends.with(|backends| {
                for (vip, entry) in &services {
                    for index in 0..entry.slots {
                        let key = SlotKey {
                            service: entry.id,
                            generation: entry.generation,
                            index,
                        };
                        let Some(slot) = slots.get(&key) else {
                            wrong.push(format!("after {after}: {vip:?} has no slot {index}"));
                            break;
                        };
                        for id in [slot.backend, slot.alias] {
                            if backends.get(&id).is_none_or(|b| b.service != entry.id) {
                                wrong.push(format!("after {after}: {vip:?} leads to no {id:?}"));
                            }
                        }
                    }
                }
            });
        });
        for (vip, entry) in &services {
            let id = &entry.id;
            let there = self.settings.with(|m| m.contains_key(id))
                && self.states.with(|m| m.contains_key(id));
            if entry.flags.need_settings() && !there {
                wrong.push(format!(
                    "after {after}: {vip:?} asks for settings of {id:?}"
                ));
            }
        }
        // A restricted address has the rule that refuses everybody else.
        let restricted: BTreeSet<ServiceKey> = self
            .source_ranges
            .with(|m| m.keys().map(|key| key.service).collect());
        for service in restricted.iter().filter(|key| services.contains_key(key)) {
            let everybody = SourceRangeKey {
                service: *service,
                clients: None,
            };
            let refused = self.source_ranges.with(|m| m.get(&everybody).copied());
            if refused != Some(LetIn(false)) {
                wrong.push(format!("after {after}: {service:?} is open to all"));
            }
        }
        let loads: BTreeSet<BackendId> = self.loads.with(|m| m.keys().copied().collect());
        for id in self
            .backends
            .with(|m| m.keys().copied().collect::<Vec<_>>())
        {
            if !loads.contains(&id) {
                wrong.push(format!("after {after}: {id:?} is not counted"));
            }
        }
        self.control(|c| {
            c.operations += 1;
            c.violations.extend(wrong);
        });
    }
}

/// Remembers what was to be closed.
pub(super) struct Recorder(pub(super) Kernel);

impl Closer for Recorder {
    fn close(&mut self, backends: Vec<BackendId>) {
        self.0.control(|c| c.closed.extend(backends));
    }
}

impl Watcher for Kernel {
    fn fault(&self) -> Option<usize> {
        self.control(|c| c.faults.next())
    }

    fn done(&self, operation: &str) {
        self.check(operation);
    }
}
