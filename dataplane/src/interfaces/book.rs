//! What was found so far, and what follows from the next look: pure, so that its rules can be read and tested.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;

use super::find::Missing;
use super::snapshot::Interface;
use super::{InterfaceIndex, WantedPods};

/// Interfaces of pods that were found, and what is missing.
#[derive(Debug, Default)]
pub(super) struct Book {
    found: BTreeMap<IpAddr, InterfaceIndex>,
    missing: BTreeMap<IpAddr, Absence>,
}

/// An address without an interface.
#[derive(Clone, Debug)]
pub(super) struct Absence {
    pub(super) why: Missing,
    pub(super) since: Instant,
}

impl Book {
    /// Addresses whose interface is to be looked for: all, or those that have none.
    pub(super) fn addresses<'a>(
        &'a self,
        wanted: &'a WantedPods,
        all: bool,
    ) -> impl Iterator<Item = IpAddr> + 'a {
        let addresses = wanted.addresses.keys().copied();
        addresses.filter(move |address| all || !self.found.contains_key(address))
    }

    /// Takes in what a look has brought for some addresses.
    ///
    /// What was found stays for as long as its interface is there and nothing else is found: neighbours and forwarding entries of
    /// quiet pods are forgotten by the kernel, which says nothing about the pod.
    pub(super) fn enter(
        &mut self,
        wanted: &WantedPods,
        interfaces: &BTreeMap<InterfaceIndex, Interface>,
        looked: BTreeMap<IpAddr, Result<InterfaceIndex, Missing>>,
        now: Instant,
    ) {
        self.found
            .retain(|a, index| wanted.addresses.contains_key(a) && interfaces.contains_key(index));
        self.missing.retain(|a, _| wanted.addresses.contains_key(a));
        for (address, result) in looked {
            match result {
                Ok(index) => {
                    self.found.insert(address, index);
                }
                Err(why) if !self.found.contains_key(&address) => {
                    let absence = Absence { why, since: now };
                    self.missing
                        .entry(address)
                        .and_modify(|known| known.why = absence.why.clone())
                        .or_insert(absence);
                }
                Err(_) => {}
            }
        }
        self.missing.retain(|a, _| !self.found.contains_key(a));
    }

    /// All that was found, whoever shares it.
    pub(super) const fn addresses_found(&self) -> &BTreeMap<IpAddr, InterfaceIndex> {
        &self.found
    }

    /// Every interface that was found, whoever shares it: each is to have its programs.
    pub(super) fn interfaces(&self) -> BTreeSet<InterfaceIndex> {
        self.found.values().copied().collect()
    }

    /// Addresses whose interface is theirs alone.
    pub(super) fn pods(&self, wanted: &WantedPods) -> BTreeMap<IpAddr, InterfaceIndex> {
        let owners = self.owners(wanted);
        self.found
            .iter()
            .filter(|(_, index)| owners.get(index).is_some_and(|names| names.len() == 1))
            .map(|(address, index)| (*address, *index))
            .collect()
    }

    /// Addresses without an interface.
    pub(super) const fn missing(&self) -> &BTreeMap<IpAddr, Absence> {
        &self.missing
    }

    /// Whether something is still to be looked for.
    pub(super) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Since when the address that was missed last has been.
    pub(super) fn newest_absence(&self) -> Option<Instant> {
        self.missing.values().map(|absence| absence.since).max()
    }

    fn owners<'a>(&self, wanted: &'a WantedPods) -> BTreeMap<InterfaceIndex, BTreeSet<&'a str>> {
        let mut owners: BTreeMap<InterfaceIndex, BTreeSet<&str>> = BTreeMap::new();
        for (address, index) in &self.found {
            if let Some(name) = wanted.addresses.get(address) {
                owners.entry(*index).or_default().insert(name);
            }
        }
        owners
    }
}

#[cfg(test)]
mod tests;
