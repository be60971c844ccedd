//! What stands in `service_settings` and `service_states`, known without asking the kernel.

use std::collections::{BTreeMap, BTreeSet};

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
        Ok(ledger)
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
