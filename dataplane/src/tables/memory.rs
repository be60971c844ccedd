//! A [`Table`] in memory: what the logic above the maps is tested against.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::mtls::MtlsTables;
use super::policy::PolicyTables;
use super::{Table, TableError, Tables, WriteError};

/// A bounded ordered map. Clones share their content, so that a test can look while the engine owns one.
pub struct MemoryTable<K, V> {
    name: &'static str,
    capacity: usize,
    entries: Arc<Mutex<BTreeMap<K, V>>>,
}

impl<K, V> Clone for MemoryTable<K, V> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            capacity: self.capacity,
            entries: Arc::clone(&self.entries),
        }
    }
}

impl<K: Ord, V> MemoryTable<K, V> {
    /// An empty table for at most `capacity` entries.
    #[must_use]
    pub fn new(name: &'static str, capacity: usize) -> Self {
        Self {
            name,
            capacity,
            entries: Arc::default(),
        }
    }

    /// A look at the content.
    pub fn with<R>(&self, look: impl FnOnce(&mut BTreeMap<K, V>) -> R) -> R {
        look(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: Ord + Copy + Send, V: Copy + Send> Table<K, V> for MemoryTable<K, V> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn write(&mut self, entries: &[(K, V)]) -> Result<(), WriteError> {
        let (name, capacity) = (self.name, self.capacity);
        self.with(|map| {
            for (written, (key, value)) in entries.iter().enumerate() {
                if map.len() >= capacity && !map.contains_key(key) {
                    return Err(WriteError::Full {
                        map: name,
                        capacity,
                        written,
                    });
                }
                map.insert(*key, *value);
            }
            Ok(())
        })
    }

    fn delete(&mut self, keys: &[K]) -> Result<(), TableError> {
        self.with(|map| {
            for key in keys {
                map.remove(key);
            }
        });
        Ok(())
    }

    fn get(&self, key: &K) -> Result<Option<V>, TableError> {
        Ok(self.with(|map| map.get(key).copied()))
    }

    fn entries(&self) -> Result<Vec<(K, V)>, TableError> {
        Ok(self.with(|map| map.iter().map(|(k, v)| (*k, *v)).collect()))
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}

/// Tables in memory, each for at most `capacity` entries.
#[must_use]
pub fn tables(capacity: usize) -> Tables {
    Tables {
        services: Box::new(MemoryTable::new("services", capacity)),
        slots: Box::new(MemoryTable::new("slots", capacity)),
        backends: Box::new(MemoryTable::new("backends", capacity)),
        loads: Box::new(MemoryTable::new("backend_loads", capacity)),
        cursors: Box::new(MemoryTable::new("cursors", capacity)),
        settings: Box::new(MemoryTable::new("service_settings", capacity)),
        states: Box::new(MemoryTable::new("service_states", capacity)),
        health: Box::new(MemoryTable::new("backend_health", capacity)),
        source_ranges: Box::new(MemoryTable::new("source_ranges", capacity)),
        nat: Box::new(MemoryTable::new("nat_settings", 1)),
        ids: Box::new(MemoryTable::new("ids", 1)),
    }
}

/// Policy tables in memory, each for at most `capacity` entries.
#[must_use]
pub fn policy_tables(capacity: usize) -> PolicyTables {
    PolicyTables {
        identities: Box::new(MemoryTable::new("identities", capacity)),
        cidr_identities: Box::new(MemoryTable::new("cidr_identities", capacity)),
        local_workloads: Box::new(MemoryTable::new("local_workloads", capacity)),
        peer_rules: Box::new(MemoryTable::new("peer_rules", capacity)),
        rules: Box::new(MemoryTable::new("rules", capacity)),
        settings: Box::new(MemoryTable::new("policy_settings", 1)),
        mtls: MtlsTables {
            modes: Box::new(MemoryTable::new("mtls_modes", capacity)),
            state: Box::new(MemoryTable::new("mtls_state", 1)),
        },
    }
}
