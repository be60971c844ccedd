//! From identities to the tables: who has which address and prefix is written, deleted, and tried again.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weft_proto::model::policy::Cidr;

use super::PolicyEngine;
use super::mirror::key;
use super::subject::Class;
use crate::tables::policy::{IdentityEntry, IdentityNumber, NodePart};

impl PolicyEngine {
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
