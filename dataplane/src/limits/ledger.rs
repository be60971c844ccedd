//! What stands in `service_settings` and `service_states`, known without asking the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use crate::tables::{
    ServiceEntry, ServiceId, ServiceSettings, ServiceState, TableError, Tables, WriteError,
};

/// The tables' content, and what of it is to go.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// `None`: a write or deletion may or may not have happened.
    settings: BTreeMap<ServiceId, Option<ServiceSettings>>,
    states: BTreeSet<ServiceId>,
    /// Services whose settings nobody wants any more.
    unset: BTreeSet<ServiceId>,
    /// Services that are gone.
    gone: BTreeSet<ServiceId>,
    /// No settings end a connection sooner than after so many seconds.
    shortest_age: Option<NonZeroU32>,
}

impl Ledger {
    /// What an earlier agent left. What belongs to none of `services` is to go.
    pub(crate) fn read(
        tables: &Tables,
        services: &BTreeSet<ServiceId>,
    ) -> Result<Self, TableError> {
        let settings = tables.settings.entries()?;
        let states = tables.states.entries()?;
        let mut ledger = Self {
            settings: settings.into_iter().map(|(k, v)| (k, Some(v))).collect(),
            states: states.into_iter().map(|(k, _)| k).collect(),
            ..Self::default()
        };
        let held = ledger.settings.keys().chain(&ledger.states);
        ledger.gone = held.filter(|id| !services.contains(id)).copied().collect();
        ledger.find_shortest_age();
        Ok(ledger)
    }

    /// No settings end a connection sooner than after so many seconds, be they of silence or in all; `None`: none ends any.
    pub(crate) const fn shortest_age(&self) -> Option<NonZeroU32> {
        self.shortest_age
    }

    fn find_shortest_age(&mut self) {
        let settings = self.settings.values().flatten();
        self.shortest_age = settings.filter_map(ServiceSettings::shortest_age).min();
    }

    /// Entries in each table.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.settings.len(), self.states.len())
    }

    /// Whether anything stands in the tables for a service of this id.
    pub(crate) fn mentions(&self, id: ServiceId) -> bool {
        self.settings.contains_key(&id) || self.states.contains(&id)
    }

    /// Whether anything waits to be deleted.
    pub(crate) fn has_leftovers(&self) -> bool {
        !self.unset.is_empty() || !self.gone.is_empty()
    }

    /// Makes sure that the tables hold these settings, and a state.
    pub(crate) fn write(
        &mut self,
        tables: &mut Tables,
        id: ServiceId,
        settings: ServiceSettings,
    ) -> Result<(), WriteError> {
        self.unset.remove(&id);
        self.make_state(tables, id)?;
        let known = self.settings.get(&id);
        if known == Some(&Some(settings)) {
            return Ok(());
        }
        let is_new = known.is_none();
        // Also if the write seems to fail. Longer ones are found when entries go.
        let ages = self.shortest_age.into_iter().chain(settings.shortest_age());
        self.shortest_age = ages.min();
        let written = tables.settings.write(&[(id, settings)]);
        match written {
            Ok(()) => {
                self.settings.insert(id, Some(settings));
            }
            Err(WriteError::Full { .. }) if is_new => {}
            Err(_) => {
                self.settings.insert(id, None);
                // Until somebody writes them again.
                self.unset.extend(is_new.then_some(id));
            }
        }
        written
    }

    fn make_state(&mut self, tables: &mut Tables, id: ServiceId) -> Result<(), WriteError> {
        if self.states.contains(&id) {
            return Ok(());
        }
        let written = tables.states.write(&[(id, ServiceState::default())]);
        // A write that failed may have happened all the same.
        if written.is_ok() || !tables.states.is_free(&id) {
            self.states.insert(id);
        }
        written
    }

    /// Nobody wants this service's settings any more.
    pub(crate) fn unset(&mut self, id: ServiceId) {
        if self.settings.contains_key(&id) {
            self.unset.insert(id);
        }
    }

    /// Nobody wants this service any more.
    pub(crate) fn discard(&mut self, id: ServiceId) {
        if self.mentions(id) {
            self.gone.insert(id);
        }
    }

    /// Deletes what is to go and what none of `vips` leads to. Returns how many entries went.
    pub(crate) fn sweep<'a>(
        &mut self,
        tables: &mut Tables,
        vips: impl Iterator<Item = &'a ServiceEntry>,
    ) -> Result<usize, TableError> {
        let (mut present, mut reading) = (BTreeSet::new(), BTreeSet::new());
        for entry in vips {
            present.insert(entry.id);
            if entry.flags.need_settings() {
                reading.insert(entry.id);
            }
        }
        let gone: Vec<_> = self.gone.difference(&present).copied().collect();
        let unset = self.unset.difference(&reading).copied();
        let settings: Vec<_> = unset
            .chain(gone.iter().copied())
            .filter(|id| self.settings.contains_key(id))
            .collect();
        for id in &settings {
            self.settings.insert(*id, None);
        }
        if !settings.is_empty() {
            tables.settings.delete(&settings)?;
        }
        for id in &settings {
            self.settings.remove(id);
            self.unset.remove(id);
        }
        self.find_shortest_age();
        let states: Vec<_> = gone
            .iter()
            .filter(|id| self.states.contains(id))
            .copied()
            .collect();
        if !states.is_empty() {
            tables.states.delete(&states)?;
        }
        for id in &gone {
            self.states.remove(id);
            self.gone.remove(id);
        }
        Ok(settings.len() + states.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::memory;

    const NOBODY: [ServiceEntry; 0] = [];

    fn aged(idle_seconds: u32, lifetime_seconds: u32) -> ServiceSettings {
        ServiceSettings {
            idle_seconds,
            lifetime_seconds,
            ..Default::default()
        }
    }

    fn shortest(ledger: &Ledger) -> u32 {
        ledger.shortest_age().map_or(0, NonZeroU32::get)
    }

    #[test]
    fn the_shortest_age_is_that_of_the_settings_that_stand() {
        let mut tables = memory::tables(3);
        let mut ledger = Ledger::default();
        assert_eq!(shortest(&ledger), 0);
        let write = |ledger: &mut Ledger, tables: &mut Tables, id, settings| {
            ledger.write(tables, ServiceId(id), settings)
        };
        write(&mut ledger, &mut tables, 1, aged(0, 0)).expect("room");
        assert_eq!(shortest(&ledger), 0);
        write(&mut ledger, &mut tables, 2, aged(50, 0)).expect("room");
        assert_eq!(shortest(&ledger), 50);
        write(&mut ledger, &mut tables, 3, aged(70, 20)).expect("room");
        assert_eq!(shortest(&ledger), 20);
        write(&mut ledger, &mut tables, 4, aged(10, 0)).expect_err("no room");
        assert_eq!(shortest(&ledger), 20, "never written");

        ledger.unset(ServiceId(3));
        ledger.sweep(&mut tables, NOBODY.iter()).expect("deleted");
        assert_eq!(shortest(&ledger), 50);
        let known = BTreeSet::from([1, 2].map(ServiceId));
        let ledger = Ledger::read(&tables, &known).expect("readable");
        assert_eq!(shortest(&ledger), 50, "as an earlier agent left it");
    }
}
