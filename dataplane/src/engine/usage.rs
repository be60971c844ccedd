//! How full the tables of services are.

use crate::tables::MapUsage;

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
    pub(super) source_ranges: MapUsage,
    /// Entries ever deleted: when it grows, what found no room may find some.
    pub(super) freed: u64,
}

impl Usage {
    pub(crate) fn all(&self) -> [MapUsage; 8] {
        [
            self.services,
            self.slots,
            self.backends,
            self.loads,
            self.cursors,
            self.settings,
            self.states,
            self.source_ranges,
        ]
    }
}
