//! Numbers of everything that policies cannot tell apart.

use std::collections::HashMap;

use weft_proto::model::policy::Cidr;

use super::subject::Class;
use super::universe::{Universe, WORLD};
use crate::tables::policy::IdentityNumber;

#[derive(Debug)]
struct Identity {
    slot: usize,
    /// Addresses and prefixes that have it.
    users: usize,
}

/// All identities: by number, by class, and by what policies ask about.
#[derive(Debug)]
pub(super) struct Identities {
    universe: Universe,
    numbers: HashMap<Class, IdentityNumber>,
    identities: HashMap<IdentityNumber, Identity>,
    next: u32,
}

impl Identities {
    /// `next` and higher numbers are unused.
    pub(super) fn new(next: IdentityNumber) -> Self {
        let universe = Universe::new();
        let mut numbers = HashMap::new();
        let mut identities = HashMap::new();
        if let Some((number, class)) = universe.get(WORLD) {
            numbers.insert(class.clone(), *number);
            // The world never goes.
            let (slot, users) = (WORLD, 1);
            identities.insert(*number, Identity { slot, users });
        }
        Self {
            universe,
            numbers,
            identities,
            next: next.max(IdentityNumber::FIRST).0,
        }
    }

    pub(super) const fn universe(&self) -> &Universe {
        &self.universe
    }

    pub(super) fn number(&self, class: &Class) -> Option<IdentityNumber> {
        self.numbers.get(class).copied()
    }

    pub(super) fn class(&self, number: IdentityNumber) -> Option<&Class> {
        let slot = self.identities.get(&number)?.slot;
        self.universe.get(slot).map(|(_, class)| class)
    }

    pub(super) fn has(&self, number: IdentityNumber) -> bool {
        self.identities.contains_key(&number)
    }

    pub(super) fn users(&self, number: IdentityNumber) -> usize {
        self.identities.get(&number).map_or(0, |i| i.users)
    }

    /// A number for a class that has none; `wanted` if that is free. Numbers ascend: one that was given up stays unused until
    /// the agent starts anew.
    pub(super) fn add(&mut self, class: Class, wanted: Option<IdentityNumber>) -> IdentityNumber {
        let wanted = wanted.filter(|number| !self.has(*number) && *number >= IdentityNumber::FIRST);
        let number = wanted.unwrap_or_else(|| self.unused());
        let slot = self.universe.add(number, class.clone());
        self.numbers.insert(class, number);
        self.identities.insert(number, Identity { slot, users: 0 });
        number
    }

    fn unused(&mut self) -> IdentityNumber {
        loop {
            let number = IdentityNumber(self.next);
            self.next = self.next.checked_add(1).unwrap_or(IdentityNumber::FIRST.0);
            if !self.has(number) {
                return number;
            }
        }
    }

    /// All addresses of this identity are within another prefix from now on; nobody else is both this and within that one.
    pub(super) fn set_cidr(&mut self, number: IdentityNumber, cidr: Option<Cidr>) {
        let Some(class) = self.class(number).cloned() else {
            return;
        };
        if let Some(identity) = self.identities.get(&number) {
            self.universe.set_cidr(identity.slot, cidr);
        }
        self.numbers.remove(&class);
        self.numbers.insert(Class { cidr, ..class }, number);
    }

    pub(super) fn acquire(&mut self, number: IdentityNumber) {
        if let Some(identity) = self.identities.get_mut(&number) {
            identity.users += 1;
        }
    }

    /// True when nobody has it any more: it is to be removed once nothing refers to it.
    pub(super) fn release(&mut self, number: IdentityNumber) -> bool {
        let Some(identity) = self.identities.get_mut(&number) else {
            return false;
        };
        identity.users -= 1;
        identity.users == 0
    }

    pub(super) fn remove(&mut self, number: IdentityNumber) {
        if let Some(class) = self.class(number).cloned() {
            self.numbers.remove(&class);
        }
        if let Some(identity) = self.identities.remove(&number) {
            self.universe.remove(identity.slot);
        }
    }
}
