//! From owners and prefixes to identities.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use weft_proto::model::policy::Cidr;

use super::PolicyEngine;
use super::cidrs::{host, last};
use super::mirror::key;
use super::owners::Owner;
use super::subject::{Class, Subject};
use crate::tables::policy::{IdentityEntry, IdentityNumber, NodePart};

/// Who has which address and prefix, as it should be.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    known: BTreeMap<IpAddr, Assigned>,
    pub(super) cidrs: BTreeMap<Cidr, IdentityNumber>,
    /// Prefixes that are not known to the kernel, and why.
    pub(super) unwritten: BTreeMap<Cidr, String>,
    /// Addresses that the kernel takes for somebody else, and does not refuse.
    pub(super) exposed: BTreeSet<IpAddr>,
    /// Addresses that may be nobody's any more.
    gone: BTreeSet<IpAddr>,
    /// Prefixes that may stand in the kernel for no reason.
    pub(super) idle: BTreeSet<Cidr>,
    /// Identities that may have lost their last user.
    unused: BTreeSet<IdentityNumber>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) number: IdentityNumber,
    pub(super) interface: u32,
    node: NodePart,
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

    /// Writes who has these addresses, where somebody has. Those for whom there is no room are refused before anybody else is let in.
    pub(super) fn publish(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        let mut room = self.mirror.room();
        let mut entries = Vec::new();
        let mut homeless = Vec::new();
        for address in addresses {
            let Some(entry) = self.entry(address) else {
                continue;
            };
            let old = self.mirror.get(address).copied();
            if old == Some(entry) {
                self.mirror.forgive(address);
                self.settle(address, &entry);
                continue;
            }
            if old.is_none() && room == 0 {
                homeless.push(address);
                continue;
            }
            room -= usize::from(old.is_none());
            self.stale |= old.is_some_and(|old| old.node != entry.node)
                || self
                    .sets
                    .tells_apart(self.mirror.number_at(address), entry.number);
            entries.push((address, entry));
        }
        if !homeless.is_empty() {
            let reason = self.mirror.refuse_addresses();
            for address in homeless {
                self.mirror.fail(address, reason.clone());
                self.refuse(address);
            }
        }
        if !entries.is_empty() {
            self.mirror.write_addresses(&mut self.tables, &entries);
        }
        for (address, entry) in &entries {
            self.settle(*address, entry);
        }
    }

    /// What the kernel is to know about this address; `None`: nobody has it.
    fn entry(&self, address: IpAddr) -> Option<IdentityEntry> {
        let assigned = self.addresses.known.get(&address)?;
        let untold = self.sets.untold().contains_key(&assigned.number);
        Some(IdentityEntry {
            number: match untold {
                false => assigned.number,
                true => IdentityNumber::REFUSED,
            },
            interface: assigned.interface,
            node: assigned.node,
        })
    }

    /// Writes as whom policies know these prefixes, where they are mentioned.
    pub(super) fn publish_cidrs(&mut self, cidrs: impl IntoIterator<Item = Cidr>) {
        for cidr in cidrs {
            let Some(number) = self.wanted_cidr(&cidr) else {
                self.addresses.unwritten.remove(&cidr);
                continue;
            };
            if self.mirror.cidr(&cidr) == Some(number) {
                self.addresses.unwritten.remove(&cidr);
                continue;
            }
            self.stale |=
                [self.mirror.cidr(&cidr), Some(number)].contains(&Some(IdentityNumber::REFUSED));
            match self.mirror.write_cidr(&mut self.tables, cidr, number) {
                Ok(()) => self.addresses.unwritten.remove(&cidr),
                Err(reason) => self.addresses.unwritten.insert(cidr, reason),
            };
        }
    }

    /// Deletes addresses and prefixes that are nobody's any more.
    pub(super) fn unpublish(&mut self) {
        let mut idle = std::mem::take(&mut self.addresses.idle);
        idle.retain(|cidr| self.mirror.cidr(cidr).is_some() && self.wanted_cidr(cidr).is_none());
        let keys: Vec<_> = idle.iter().map(key).collect();
        if !keys.is_empty()
            && let Err(e) = self.mirror.delete_cidrs(&mut self.tables, &keys)
        {
            tracing::warn!("prefixes that are gone stay for now: {e}");
            self.addresses.idle = idle;
        }
        if self.owners.interfaces().settled {
            self.unpublish_addresses();
        }
    }

    fn unpublish_addresses(&mut self) {
        let known = &self.addresses.known;
        let gone = std::mem::take(&mut self.addresses.gone).into_iter();
        let gone: Vec<IpAddr> = gone
            .filter(|address| !known.contains_key(address) && self.mirror.get(*address).is_some())
            .collect();
        if gone.is_empty() {
            return;
        }
        for address in &gone {
            let Some(old) = self.mirror.get(*address) else {
                continue;
            };
            let outside = self.mirror.outside(*address);
            self.stale |= old.node != NodePart::None || self.sets.tells_apart(old.number, outside);
        }
        if let Err(e) = self.mirror.delete_addresses(&mut self.tables, &gone) {
            tracing::warn!("addresses that are gone stay for now: {e}");
            self.addresses.gone.extend(gone);
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

    /// Tries again what could not be written, as far as there is room now.
    pub(super) fn republish(&mut self) {
        let failed = self.mirror.failures().map(|(address, _)| address);
        let (placed, homeless): (Vec<_>, Vec<_>) =
            failed.partition(|address| self.mirror.get(*address).is_some());
        let homeless = homeless.into_iter().take(self.mirror.room());
        let mut addresses: BTreeSet<IpAddr> = placed.into_iter().chain(homeless).collect();
        let unwritten = self.addresses.unwritten.keys().copied();
        let mut cidrs: BTreeSet<Cidr> = unwritten.collect();
        let unknown = self.learnable(&mut addresses, &mut cidrs);
        self.sets.learn(&mut self.tables, &unknown);
        self.publish(addresses);
        self.publish_cidrs(cidrs);
        self.narrow();
        self.withdraw_unseen();
    }

    /// Identities that sets have not been told of, and that somebody in the kernel would have; adds those who would to `addresses`
    /// and `cidrs`.
    fn learnable(
        &self,
        addresses: &mut BTreeSet<IpAddr>,
        cidrs: &mut BTreeSet<Cidr>,
    ) -> Vec<(IdentityNumber, Class)> {
        let untold = self.sets.untold();
        if untold.is_empty() {
            return Vec::new();
        }
        let mut numbers = BTreeSet::new();
        for (address, at) in &self.addresses.known {
            let there = self.mirror.get(*address).is_some() || addresses.contains(address);
            if there && untold.contains_key(&at.number) {
                addresses.insert(*address);
                numbers.insert(at.number);
            }
        }
        for (cidr, number) in &self.addresses.cidrs {
            let there = self.mirror.cidr(cidr).is_some() || cidrs.contains(cidr);
            if there && untold.contains_key(number) && !self.has_homeless(cidr) {
                cidrs.insert(*cidr);
                numbers.insert(*number);
            }
        }
        let class = |number| Some((number, self.identities.class(number)?.clone()));
        numbers.into_iter().filter_map(class).collect()
    }
}
