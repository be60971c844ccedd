//! What stands in the tables that say who has an address and which sets judge a pod, known without asking the kernel.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use weft_proto::model::policy::Cidr;

use super::cidrs::{ALL_V4, host, last};
use crate::tables::policy::{
    CidrKey, IdentityEntry, IdentityNumber, LocalWorkload, PolicySettings, PolicyTables,
};
use crate::tables::{MapUsage, TableError, WriteError};

/// Set ids are set aside this many at a time.
const RESERVE: u32 = 64;

/// Copies of `identities`, `cidr_identities`, `local_workloads` and `policy_settings`.
#[derive(Debug)]
pub(super) struct Mirror {
    identities: BTreeMap<IpAddr, IdentityEntry>,
    cidrs: BTreeMap<CidrKey, IdentityNumber>,
    /// Those of them that are refused.
    refused: BTreeSet<CidrKey>,
    pods: BTreeMap<u32, LocalWorkload>,
    settings: PolicySettings,
    /// The next set id to give out; below `settings.next_set`, but for none being left.
    next_set: u32,
    /// How many entries have a number.
    references: HashMap<IdentityNumber, usize>,
    /// Addresses that could not be written, and why.
    failures: BTreeMap<IpAddr, String>,
    usage: [MapUsage; 3],
}

const IDENTITIES: usize = 0;
const CIDRS: usize = 1;
const PODS: usize = 2;

pub(super) const fn key(cidr: &Cidr) -> CidrKey {
    CidrKey {
        address: cidr.address,
        prefix: cidr.prefix,
    }
}

fn cidr(key: &CidrKey) -> Cidr {
    Cidr {
        address: key.address,
        prefix: key.prefix,
    }
}

impl Mirror {
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn read(tables: &PolicyTables) -> Result<Self, TableError> {
        let settings = tables.settings.get(&0)?.unwrap_or_default();
        let mut mirror = Self {
            identities: tables.identities.entries()?.into_iter().collect(),
            cidrs: tables.cidr_identities.entries()?.into_iter().collect(),
            refused: BTreeSet::new(),
            pods: tables.local_workloads.entries()?.into_iter().collect(),
            next_set: settings.next_set.max(1),
            settings,
            references: HashMap::new(),
            failures: BTreeMap::new(),
            usage: [
                MapUsage::of(&*tables.identities),
                MapUsage::of(&*tables.cidr_identities),
                MapUsage::of(&*tables.local_workloads),
            ],
        };
        let refused = mirror.cidrs.iter();
        let refused = refused.filter(|(_, number)| **number == IdentityNumber::REFUSED);
        mirror.refused = refused.map(|(key, _)| *key).collect();
        let numbers: Vec<IdentityNumber> = mirror.numbers().collect();
        for number in numbers {
            *mirror.references.entry(number).or_default() += 1;
        }
        Ok(mirror)
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = IdentityNumber> + '_ {
        let exact = self.identities.values().map(|entry| entry.number);
        exact.chain(self.cidrs.values().copied())
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.identities.keys().copied()
    }

    pub(super) fn get(&self, address: IpAddr) -> Option<&IdentityEntry> {
        self.identities.get(&address)
    }

    pub(super) fn cidr(&self, cidr: &Cidr) -> Option<IdentityNumber> {
        self.cidrs.get(&key(cidr)).copied()
    }

    pub(super) fn cidrs(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.cidrs.keys().map(cidr)
    }

    /// Prefixes whose strangers are refused.
    pub(super) fn refused_cidrs(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.refused.iter().map(cidr)
    }

    /// The longest prefix around this address: it speaks for one that has no entry of its own.
    pub(super) fn around(&self, address: IpAddr) -> Option<(Cidr, IdentityNumber)> {
        let longest = host(address).prefix;
        (0..=longest).rev().find_map(|prefix| {
            let around = Cidr::new(address, prefix)?;
            Some((around, self.cidr(&around)?))
        })
    }

    /// As whom the kernel knows this address.
    pub(super) fn number_at(&self, address: IpAddr) -> IdentityNumber {
        self.get(address)
            .map_or_else(|| self.outside(address), |entry| entry.number)
    }

    /// As whom the kernel knows this address if it is nobody's.
    pub(super) fn outside(&self, address: IpAddr) -> IdentityNumber {
        let around = self.around(address);
        around.map_or(IdentityNumber::REFUSED, |(_, number)| number)
    }

    pub(super) const fn pods(&self) -> &BTreeMap<u32, LocalWorkload> {
        &self.pods
    }

    pub(super) const fn settings(&self) -> PolicySettings {
        self.settings
    }

    pub(super) fn refers_to(&self, number: IdentityNumber) -> bool {
        self.references.contains_key(&number)
    }

    pub(super) fn failure(&self, address: IpAddr) -> Option<&str> {
        self.failures.get(&address).map(String::as_str)
    }

    /// Those of them in this prefix that have no entry at all: others must not be taken for the strangers around them.
    pub(super) fn homeless(&self, within: &Cidr) -> impl Iterator<Item = IpAddr> + '_ {
        let failed = self.failures.range(within.address..=last(within));
        let failed = failed.map(|(address, _)| *address);
        failed.filter(|address| !self.identities.contains_key(address))
    }

    /// An address could not be written.
    pub(super) fn fail(&mut self, address: IpAddr, reason: String) {
        self.failures.insert(address, reason);
    }

    /// How many addresses more can have an entry.
    pub(super) fn room(&self) -> usize {
        self.usage()[IDENTITIES].room()
    }

    /// How many prefixes more can have an entry: one stays free, as older kernels want room for one more even to replace.
    pub(super) fn cidr_room(&self) -> usize {
        self.usage()[CIDRS].room().saturating_sub(1)
    }

    /// Counts that addresses found no room, and says what to do about it.
    pub(super) fn refuse_addresses(&mut self) -> String {
        self.usage[IDENTITIES].refuse()
    }

    /// Nobody has this address any more.
    pub(super) fn forgive(&mut self, address: IpAddr) {
        self.failures.remove(&address);
    }

    /// Addresses that could not be written, and why.
    pub(super) fn failures(&self) -> impl Iterator<Item = (IpAddr, &str)> {
        let failures = self.failures.iter();
        failures.map(|(address, reason)| (*address, reason.as_str()))
    }

    pub(super) fn usage(&self) -> [MapUsage; 3] {
        let mut usage = self.usage;
        usage[IDENTITIES].entries = self.identities.len();
        usage[CIDRS].entries = self.cidrs.len();
        usage[PODS].entries = self.pods.len();
        usage
    }

    /// Writes who has these addresses. What cannot be written stands under [`Mirror::failure`].
    pub(super) fn write_addresses(
        &mut self,
        tables: &mut PolicyTables,
        entries: &[(IpAddr, IdentityEntry)],
    ) {
        if let Err(WriteError::Full { .. }) = self.try_addresses(tables, entries) {
            self.usage[IDENTITIES].full += 1;
        }
    }

    fn try_addresses(
        &mut self,
        tables: &mut PolicyTables,
        entries: &[(IpAddr, IdentityEntry)],
    ) -> Result<(), WriteError> {
        let all = tables.identities.write(entries);
        for (address, entry) in entries {
            // Some may have gone in, and others are changed in place: one by one shows which.
            let written = match &all {
                Ok(()) => Ok(()),
                Err(_) => tables.identities.write(&[(*address, *entry)]),
            };
            match written {
                Ok(()) => {
                    self.note_address(*address, Some(*entry));
                    self.failures.remove(address);
                }
                Err(e) => {
                    let found = tables.identities.get(address).ok().flatten();
                    self.note_address(*address, found);
                    self.failures.insert(*address, e.to_string());
                }
            }
        }
        all
    }

    /// # Errors
    /// When the kernel refuses; then they stay.
    pub(super) fn delete_addresses(
        &mut self,
        tables: &mut PolicyTables,
        addresses: &[IpAddr],
    ) -> Result<(), TableError> {
        tables.identities.delete(addresses)?;
        for address in addresses {
            self.note_address(*address, None);
            self.failures.remove(address);
        }
        Ok(())
    }

    /// Writes as whom policies know a prefix.
    ///
    /// # Errors
    /// Why it is known as before, or not at all.
    pub(super) fn write_cidr(
        &mut self,
        tables: &mut PolicyTables,
        cidr: Cidr,
        number: IdentityNumber,
    ) -> Result<(), String> {
        // Without it, an IPv4 address would be taken to be in a short IPv6 prefix.
        if cidr != ALL_V4 && self.cidr(&ALL_V4).is_none() {
            return Err("0.0.0.0/0 could not be written, which has to be there first".to_owned());
        }
        let key = key(&cidr);
        if self.cidr_room() == 0 && !self.cidrs.contains_key(&key) {
            return Err(self.usage[CIDRS].refuse());
        }
        let written = tables.cidr_identities.write(&[(key, number)]);
        written.map_err(|e| e.to_string())?;
        self.note_cidr(key, Some(number));
        Ok(())
    }

    /// # Errors
    /// When the kernel refuses; then they stay.
    pub(super) fn delete_cidrs(
        &mut self,
        tables: &mut PolicyTables,
        keys: &[CidrKey],
    ) -> Result<(), TableError> {
        tables.cidr_identities.delete(keys)?;
        keys.iter().for_each(|key| self.note_cidr(*key, None));
        Ok(())
    }

    /// # Errors
    /// Why the pod is judged as before, or not at all.
    pub(super) fn write_pod(
        &mut self,
        tables: &mut PolicyTables,
        interface: u32,
        entry: LocalWorkload,
    ) -> Result<(), String> {
        if let Err(e) = tables.local_workloads.write(&[(interface, entry)]) {
            if matches!(e, WriteError::Full { .. }) {
                self.usage[PODS].full += 1;
            }
            return Err(e.to_string());
        }
        self.pods.insert(interface, entry);
        Ok(())
    }

    /// # Errors
    /// When the kernel refuses; then they stay.
    pub(super) fn delete_pods(
        &mut self,
        tables: &mut PolicyTables,
        interfaces: &[u32],
    ) -> Result<(), TableError> {
        tables.local_workloads.delete(interfaces)?;
        for interface in interfaces {
            self.pods.remove(interface);
        }
        Ok(())
    }

    /// # Errors
    /// When it cannot be written down that the id is taken.
    pub(super) fn next_set(&mut self, tables: &mut PolicyTables) -> Result<u32, String> {
        if self.next_set >= self.settings.next_set {
            self.write_settings(
                tables,
                PolicySettings {
                    next_set: self.next_set.saturating_add(RESERVE),
                    epoch: self.settings.epoch.max(1),
                },
            )?;
        }
        let id = self.next_set;
        self.next_set += 1;
        Ok(id)
    }

    /// # Errors
    /// When the kernel refuses.
    pub(super) fn raise_epoch(&mut self, tables: &mut PolicyTables) -> Result<(), String> {
        let epoch = self.settings.epoch.wrapping_add(1).max(1);
        let settings = PolicySettings {
            epoch,
            next_set: self.settings.next_set.max(self.next_set),
        };
        self.write_settings(tables, settings)
    }

    fn write_settings(
        &mut self,
        tables: &mut PolicyTables,
        settings: PolicySettings,
    ) -> Result<(), String> {
        tables
            .settings
            .write(&[(0, settings)])
            .map_err(|e| e.to_string())?;
        self.settings = settings;
        Ok(())
    }

    fn note_address(&mut self, address: IpAddr, entry: Option<IdentityEntry>) {
        let old = match entry {
            Some(entry) => self.identities.insert(address, entry),
            None => self.identities.remove(&address),
        };
        self.refer(entry.map(|e| e.number), old.map(|e| e.number));
    }

    fn note_cidr(&mut self, key: CidrKey, number: Option<IdentityNumber>) {
        match number {
            Some(IdentityNumber::REFUSED) => self.refused.insert(key),
            _ => self.refused.remove(&key),
        };
        let old = match number {
            Some(number) => self.cidrs.insert(key, number),
            None => self.cidrs.remove(&key),
        };
        self.refer(number, old);
    }

    fn refer(&mut self, new: Option<IdentityNumber>, old: Option<IdentityNumber>) {
        if let Some(new) = new {
            *self.references.entry(new).or_default() += 1;
        }
        if let Some(old) = old
            && let Some(count) = self.references.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                self.references.remove(&old);
            }
        }
    }
}
