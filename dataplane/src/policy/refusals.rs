//! Whoever finds no room must not be taken for a stranger.
//!
//! The kernel knows an address by its own entry, else by the longest prefix around it. One that cannot have an entry of its own is
//! refused by one for it among the prefixes; where there is no room either, the longest prefix around it that stands there is
//! *shut*: whoever has no entry of its own in it is refused, up to the whole outside, until there is room again. An entry that
//! stands there is changed without more room, so that the way to refuse is never barred by the shortage itself. All of this can be
//! read from the tables, and a new agent goes on from there.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weft_proto::model::policy::Cidr;

use super::PolicyEngine;
use super::cidrs::{ALL_V4, ALL_V6, host};
use crate::tables::policy::{IdentityEntry, IdentityNumber};

impl PolicyEngine {
    /// Refuses an address that has no entry of its own. What cannot even be refused is exposed, see [`PolicyEngine::exposed`].
    pub(super) fn refuse(&mut self, address: IpAddr) {
        let around = self.mirror.around(address);
        if around.is_some_and(|(_, number)| number != IdentityNumber::REFUSED) {
            let longest = around.map(|(cidr, _)| cidr);
            let mut ways = [Some(host(address)), longest].into_iter().flatten();
            if !ways.any(|cidr| self.shut(cidr)) {
                self.addresses.exposed.insert(address);
                return;
            }
        }
        self.addresses.exposed.remove(&address);
    }

    fn shut(&mut self, cidr: Cidr) -> bool {
        let refused = IdentityNumber::REFUSED;
        let written = self.mirror.write_cidr(&mut self.tables, cidr, refused);
        self.stale |= written.is_ok();
        written.is_ok()
    }

    /// What an address is, after it was tried to write this.
    pub(super) fn settle(&mut self, address: IpAddr, wanted: &IdentityEntry) {
        if self.mirror.failure(address).is_none() {
            self.addresses.exposed.remove(&address);
            return;
        }
        match self.mirror.get(address) {
            None => self.refuse(address),
            Some(found) if found.number == wanted.number && found.node == wanted.node => {
                self.addresses.exposed.remove(&address);
            }
            Some(_) => {
                self.addresses.exposed.insert(address);
            }
        }
    }

    /// Why no pod can be sent to another set: somebody is taken for who he is not, and the set might let him through.
    pub(super) fn exposed(&self) -> Option<String> {
        let address = self.addresses.exposed.first()?;
        let reason = self.mirror.failure(*address).unwrap_or("not written");
        Some(format!(
            "waits until {address} can be written or refused: {reason}"
        ))
    }

    /// As whom this prefix is to be known; `None`: it has no reason to be there.
    pub(super) fn wanted_cidr(&self, cidr: &Cidr) -> Option<IdentityNumber> {
        if self.has_homeless(cidr) {
            return Some(IdentityNumber::REFUSED);
        }
        match self.addresses.cidrs.get(cidr) {
            Some(number) if self.sets.untold().contains_key(number) => {
                Some(IdentityNumber::REFUSED)
            }
            Some(number) => Some(*number),
            None => [ALL_V4, ALL_V6]
                .contains(cidr)
                .then_some(IdentityNumber::WORLD),
        }
    }

    /// Whether an address that found no room is known by this prefix, or would be if it stood there.
    pub(super) fn has_homeless(&self, cidr: &Cidr) -> bool {
        self.mirror.homeless(cidr).any(|address| {
            let around = self.mirror.around(address);
            around.is_none_or(|(inner, _)| inner.prefix <= cidr.prefix)
        })
    }

    /// Refuses as few as possible: addresses one by one as far as there is room, and no prefix that need not be.
    pub(super) fn narrow(&mut self) {
        let homeless = [ALL_V4, ALL_V6].into_iter();
        let homeless: Vec<IpAddr> = homeless
            .flat_map(|all| self.mirror.homeless(&all).collect::<Vec<_>>())
            .collect();
        for address in homeless {
            let own = host(address);
            if self.mirror.cidr_room() > 0 && self.mirror.cidr(&own).is_none() {
                self.shut(own);
            }
            self.refuse(address);
        }
        self.reopen();
    }

    /// Lets in again, as far as policies do, whom nobody has to be refused for any more.
    pub(super) fn reopen(&mut self) {
        let refused = self.mirror.refused_cidrs();
        let free = |cidr: &Cidr| self.wanted_cidr(cidr) != Some(IdentityNumber::REFUSED);
        let free: Vec<Cidr> = refused.filter(free).collect();
        self.addresses.idle.extend(&free);
        self.stale |= !free.is_empty();
        self.publish_cidrs(free);
    }

    /// Sets are not told of identities that nothing in the kernel has for want of room: their rules would take what there is.
    pub(super) fn withdraw_unseen(&mut self) {
        let addresses = self.mirror.failures();
        let addresses = addresses.filter_map(|(address, reason)| {
            Some((self.addresses.get(address)?.number, reason.to_owned()))
        });
        let cidrs = self.addresses.unwritten.iter();
        let cidrs = cidrs
            .filter_map(|(cidr, reason)| Some((*self.addresses.cidrs.get(cidr)?, reason.clone())));
        let shut = self.mirror.refused_cidrs();
        let shut = shut.filter_map(|cidr| {
            let number = *self.addresses.cidrs.get(&cidr)?;
            Some((number, "an address in it found no room".to_owned()))
        });
        let unseen: BTreeMap<IdentityNumber, String> = addresses
            .chain(cidrs)
            .chain(shut)
            .filter(|(number, _)| !self.mirror.refers_to(*number))
            .filter(|(number, _)| !self.sets.untold().contains_key(number))
            .collect();
        self.sets.withdraw(&mut self.tables, unseen);
    }

    /// Why an address is not known as it should be, and what becomes of it meanwhile.
    pub(super) fn address_failure(&self, address: IpAddr) -> Option<String> {
        let reason = self.mirror.failure(address)?;
        let around = self.mirror.around(address);
        Some(match around {
            _ if self.addresses.exposed.contains(&address) => reason.to_owned(),
            _ if self.mirror.get(address).is_some() => reason.to_owned(),
            Some((cidr, _)) if cidr != host(address) => {
                format!("{reason}; with it, all of {cidr} is refused that has no entry of its own")
            }
            _ => format!("{reason}; {address} is refused everywhere"),
        })
    }

    /// How many addresses are refused because they found no room, and which prefixes are with them.
    #[must_use]
    pub fn shortage(&self) -> Shortage {
        let shut = self
            .mirror
            .refused_cidrs()
            .filter(|cidr| *cidr != host(cidr.address) || self.addresses.cidrs.contains_key(cidr));
        Shortage {
            addresses: self.mirror.failures().count(),
            prefixes: shut.collect(),
        }
    }
}

/// Who is refused for want of room in the kernel's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortage {
    /// Addresses of workloads and nodes that are not known as they should be.
    pub addresses: usize,
    /// Prefixes of which everything is refused that has no entry of its own.
    pub prefixes: Vec<Cidr>,
}
