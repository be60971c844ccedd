//! How full the tables are, counted as they are written.

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
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.entries.saturating_add(more) <= self.capacity
    }

    pub(super) fn add(&mut self, entries: usize) {
        self.entries = self.entries.saturating_add(entries);
    }

    pub(super) fn remove(&mut self, entries: usize) {
        self.entries = self.entries.saturating_sub(entries);
    }

    /// Counts a refusal, and says what to do about it.
    pub(super) fn refuse(&mut self) -> String {
        self.full = self.full.saturating_add(1);
        crate::tables::WriteError::Full {
            map: self.name,
            capacity: self.capacity,
            written: 0,
        }
        .to_string()
    }
}

/// Use of the tables that grow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) services: MapUsage,
    pub(super) slots: MapUsage,
    pub(super) backends: MapUsage,
    pub(super) loads: MapUsage,
    pub(super) cursors: MapUsage,
    /// Entries ever deleted: when it grows, what found no room may find some.
    pub(super) freed: u64,
}

impl Usage {
    pub(super) fn all(&self) -> [MapUsage; 5] {
        [
            self.services,
            self.slots,
            self.backends,
            self.loads,
            self.cursors,
        ]
    }
}
