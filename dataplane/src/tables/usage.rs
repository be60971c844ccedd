//! How full a table is, counted by its owner as it writes.

use super::{Table, WriteError};

/// One table's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MapUsage {
    /// Name of the map.
    pub name: &'static str,
    /// Entries in it.
    pub entries: usize,
    /// Entries it can hold.
    pub capacity: usize,
    /// Writes refused for want of room since the agent started.
    pub full: u64,
}

impl MapUsage {
    /// Of a table of which nothing is known yet but its size.
    pub(crate) fn of<K, V>(table: &dyn Table<K, V>) -> Self {
        Self {
            name: table.name(),
            capacity: table.capacity(),
            ..Self::default()
        }
    }

    /// How many entries more it can hold.
    pub(crate) const fn room(&self) -> usize {
        self.capacity.saturating_sub(self.entries)
    }

    pub(crate) const fn has_room(&self, more: usize) -> bool {
        more <= self.room()
    }

    pub(crate) const fn add(&mut self, entries: usize) {
        self.entries = self.entries.saturating_add(entries);
    }

    pub(crate) const fn remove(&mut self, entries: usize) {
        self.entries = self.entries.saturating_sub(entries);
    }

    /// Counts a refusal, and says what to do about it.
    pub(crate) fn refuse(&mut self) -> String {
        self.full = self.full.saturating_add(1);
        WriteError::Full {
            map: self.name,
            capacity: self.capacity,
            written: 0,
        }
        .to_string()
    }
}
