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
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.entries.saturating_add(more) <= self.capacity
    }

    pub(crate) fn add(&mut self, entries: usize) {
        self.entries = self.entries.saturating_add(entries);
    }

    pub(crate) fn remove(&mut self, entries: usize) {
        self.entries = self.entries.saturating_sub(entries);
    }

    /// Counts a refusal, and says what to do about it.
    pub(crate) fn refuse(&mut self) -> String {
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
    pub(super) settings: MapUsage,
    pub(super) states: MapUsage,
    /// Entries ever deleted: when it grows, what found no room may find some.
    pub(super) freed: u64,
}

impl Usage {
    pub(crate) fn all(&self) -> [MapUsage; 7] {
        [
            self.services,
            self.slots,
            self.backends,
            self.loads,
            self.cursors,
            self.settings,
            self.states,
        ]
    }
}
