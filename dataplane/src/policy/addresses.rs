//! From owners and prefixes to identities.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use weft_proto::model::policy::Cidr;

use super::PolicyEngine;
use super::cidrs::{host, last};
use super::owners::Owner;
use super::subject::{Class, Subject};
use crate::tables::policy::{IdentityNumber, NodePart};

/// Who has which address and prefix, as it should be.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    pub(super) known: BTreeMap<IpAddr, Assigned>,
    pub(super) cidrs: BTreeMap<Cidr, IdentityNumber>,
    /// Prefixes that are not known to the kernel, and why.
    pub(super) unwritten: BTreeMap<Cidr, String>,
    /// Addresses that the kernel takes for somebody else, and does not refuse.
    pub(super) exposed: BTreeSet<IpAddr>,
    /// Addresses that may be nobody's any more.
    pub(super) gone: BTreeSet<IpAddr>,
    /// Prefixes that may stand in the kernel for no reason.
    pub(super) idle: BTreeSet<Cidr>,
    /// Identities that may have lost their last user.
    unused: BTreeSet<IdentityNumber>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) number: IdentityNumber,
    pub(super) interface: u32,
    pub(super) node: NodePart,
}

/// What an address should have.
struct Wanted {
    class: Class,
    interface: u32,
}

impl Addresses {
    /// What an earlier agent wrote, until somebody wants it.
    pub(super) fn found(&mut self, cidrs: impl IntoIterator<Item = Cidr>) {
        self.idle.extend(cidrs);
    }

    pub(super) fn get(&self, address: IpAddr) -> Option<&Assigned> {
        self.known.get(&address)
    }

    pub(super) fn with_number(&self, number: IdentityNumber) -> impl Iterator<Item = IpAddr> + '_ {
        let known = self.known.iter();
        known.filter_map(move |(address, at)| (at.number == number).then_some(*address))
    }

    fn within(&self, cidr: &Cidr) -> impl Iterator<Item = IpAddr> + '_ {
        let range = self.known.range(cidr.address..=last(cidr));
        range.map(|(address, _)| *address)
    }
}

impl PolicyEngine {
    /// Gives these addresses, and those within these prefixes, the identities they should have; every set knows them first.
    pub(super) fn readdress(&mut self, mut addresses: BTreeSet<IpAddr>, cidrs: &BTreeSet<Cidr>) {
        for cidr in cidrs {
            addresses.extend(self.addresses.within(cidr));
        }
        let wanted: BTreeMap<IpAddr, Option<Wanted>> = addresses
            .into_iter()
            .map(|address| (address, self.wanted_at(address)))
            .collect();
        self.rename(&wanted);
        let mut fresh = self.number(&wanted);
        fresh.extend(self.untold(&wanted));
        for cidr in cidrs {
            fresh.extend(self.number_cidr(*cidr));
        }
        self.sets.learn(&mut self.tables, &fresh);
        for (address, wanted) in &wanted {
            self.assign(*address, wanted.as_ref());
        }
        self.publish(wanted.keys().copied());
        self.publish_cidrs(cidrs.iter().copied());
        self.reopen();
        self.withdraw_unseen();
    }

    /// Identities that are wanted, and of which sets have not been told so far.
    fn untold(&self, wanted: &BTreeMap<IpAddr, Option<Wanted>>) -> BTreeMap<IdentityNumber, Class> {
        let untold = self.sets.untold();
        let wanted = wanted.values().flatten();
        let known =
            wanted.filter_map(|w| Some((self.identities.number(&w.class)?, w.class.clone())));
        known
            .filter(|(number, _)| untold.contains_key(number))
            .collect()
    }

    fn wanted_at(&self, address: IpAddr) -> Option<Wanted> {
        let owner = self.owners.owner(address)?;
        Some(Wanted {
            interface: self.interface_at(address, &owner),
            class: self.class_of(owner.subject, address),
        })
    }

    /// Host side of the interface that leads to the local pod at this address; 0 for none.
    pub(super) fn interface_at(&self, address: IpAddr, owner: &Owner<'_>) -> u32 {
        let interfaces = self.owners.interfaces();
        if owner.interface != 0 || interfaces.settled {
            return owner.interface;
        }
        // It may only not have been looked for yet: what stands there stays, unless it leads to somebody else by now.
        let pod = owner.workload.and_then(|name| self.owners.get(name));
        let found = self.mirror.get(address).map_or(0, |entry| entry.interface);
        let taken = || interfaces.pods.values().any(|index| index.get() == found);
        match pod.is_some_and(|pod| self.owners.is_local(pod)) && !taken() {
            true => found,
            false => 0,
        }
    }

    fn class_of(&self, subject: Arc<Subject>, address: IpAddr) -> Class {
        Class {
            subject,
            cidr: self.cidrs.most_specific(address),
        }
    }

    /// Where all who have an identity came under another prefix together, they keep its number: sets in use cannot tell, since
    /// none of them mentions the prefixes that make the difference.
    fn rename(&mut self, wanted: &BTreeMap<IpAddr, Option<Wanted>>) {
        let mut moves: HashMap<IdentityNumber, (usize, Option<&Class>)> = HashMap::new();
        for (address, wanted) in wanted {
            let Some(old) = self.addresses.known.get(address) else {
                continue;
            };
            let class = wanted.as_ref().map(|wanted| &wanted.class);
            let (count, together) = moves.entry(old.number).or_insert((0, class));
            *count += 1;
            if *together != class {
                *together = None;
            }
        }
        for (number, (count, class)) in moves {
            if let Some(class) = class
                && count == self.identities.users(number)
                && self.identities.number(class).is_none()
                && self
                    .identities
                    .class(number)
                    .is_some_and(|old| old.subject == class.subject)
            {
                self.identities.set_cidr(number, class.cidr);
            }
        }
    }

    /// Numbers every class that has none; returns those.
    fn number(
        &mut self,
        wanted: &BTreeMap<IpAddr, Option<Wanted>>,
    ) -> Vec<(IdentityNumber, Class)> {
        // What an earlier agent called them is kept where it can be, by the most addresses.
        let mut found: HashMap<&Class, BTreeMap<IdentityNumber, usize>> = HashMap::new();
        for (address, wanted) in wanted {
            let Some(Wanted { class, .. }) = wanted else {
                continue;
            };
            if self.identities.number(class).is_none() {
                let numbers = found.entry(class).or_default();
                if let Some(entry) = self.mirror.get(*address) {
                    *numbers.entry(entry.number).or_default() += 1;
                }
            }
        }
        let mut order: Vec<_> = found
            .into_iter()
            .map(|(class, numbers)| {
                let most = numbers.into_iter().max_by_key(|(_, count)| *count);
                (most.map(|(number, count)| (count, number)), class)
            })
            .collect();
        order.sort_by_key(|(most, _)| std::cmp::Reverse(*most));
        let add = |(most, class): (Option<(usize, IdentityNumber)>, &Class)| {
            let wanted = most.map(|(_, number)| number);
            let number = self.identities.add(class.clone(), wanted);
            // Until somebody has it.
            self.addresses.unused.insert(number);
            (number, class.clone())
        };
        order.into_iter().map(add).collect()
    }

    /// The identity of what is in this prefix and nobody's, or none any more; returned if it is new.
    fn number_cidr(&mut self, cidr: Cidr) -> Option<(IdentityNumber, Class)> {
        if !self.cidrs.has(&cidr) {
            if let Some(number) = self.addresses.cidrs.remove(&cidr) {
                self.addresses.idle.insert(cidr);
                self.let_go(number);
            }
            return None;
        }
        if self.addresses.cidrs.contains_key(&cidr) {
            return None;
        }
        let class = Class {
            subject: Subject::external().into(),
            cidr: Some(cidr),
        };
        let known = self.identities.number(&class);
        let number = known.unwrap_or_else(|| {
            let found = self.mirror.cidr(&cidr);
            self.identities.add(class.clone(), found)
        });
        self.identities.acquire(number);
        self.addresses.cidrs.insert(cidr, number);
        let untold = self.sets.untold().contains_key(&number);
        (known.is_none() || untold).then_some((number, class))
    }

    fn assign(&mut self, address: IpAddr, wanted: Option<&Wanted>) {
        let assigned = wanted.and_then(|Wanted { class, interface }| {
            Some(Assigned {
                number: self.identities.number(class)?,
                interface: *interface,
                node: class.subject.node,
            })
        });
        if let Some(assigned) = assigned {
            self.identities.acquire(assigned.number);
        }
        let old = match assigned {
            Some(assigned) => self.addresses.known.insert(address, assigned),
            None => {
                self.mirror.forgive(address);
                self.addresses.exposed.remove(&address);
                self.addresses.gone.insert(address);
                self.addresses.idle.insert(host(address));
                self.addresses.known.remove(&address)
            }
        };
        if let Some(old) = old {
            self.let_go(old.number);
        }
    }

    fn let_go(&mut self, number: IdentityNumber) {
        if self.identities.release(number) {
            self.addresses.unused.insert(number);
        }
    }

    /// Deletes identities that nobody has.
    pub(super) fn free_identities(&mut self) {
        self.withdraw_unseen();
        let mirror = &self.mirror;
        let is_known = |number| number < IdentityNumber::FIRST || mirror.refers_to(number);
        self.sets.forget_strangers(&mut self.tables, is_known);
        let unused = std::mem::take(&mut self.addresses.unused);
        let (gone, held): (Vec<_>, Vec<_>) = unused
            .into_iter()
            .filter(|number| self.identities.has(*number) && self.identities.users(*number) == 0)
            .partition(|number| !self.mirror.refers_to(*number));
        self.addresses.unused.extend(held);
        if gone.is_empty() {
            return;
        }
        self.sets.forget(&mut self.tables, &gone);
        gone.iter()
            .for_each(|number| self.identities.remove(*number));
    }
}
