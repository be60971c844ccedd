//! Who may come in from outside, and whether anybody may.
//!
//! A restricted address first refuses everybody, then lets in whom it is to, and only then is served; it stops being served before its
//! ranges go. What cannot be restricted is not served.

use std::collections::BTreeMap;

use weft_proto::model::Side;
use weft_proto::model::policy::Cidr;

use super::{Engine, Phase};
use crate::tables::{
    LetIn, NatSettings, ServiceKey, SourceRangeKey, Table, TableError, Tables, WriteError,
};

/// What the tables say.
#[derive(Debug, Default)]
pub(super) struct Outside {
    ranges: BTreeMap<SourceRangeKey, bool>,
    settings: Option<NatSettings>,
}

impl Outside {
    pub(super) fn read(tables: &Tables) -> Result<Self, TableError> {
        let ranges = tables.source_ranges.entries()?;
        Ok(Self {
            ranges: ranges.into_iter().map(|(k, LetIn(v))| (k, v)).collect(),
            settings: tables.nat.get(&0)?,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    fn of(&self, service: ServiceKey) -> impl Iterator<Item = (&SourceRangeKey, &bool)> {
        let first = SourceRangeKey {
            service,
            clients: None,
        };
        let rest = self.ranges.range(first..);
        rest.take_while(move |(key, _)| key.service == service)
    }

    /// Lets in `clients` and nobody else; without any, everybody.
    fn add(
        &mut self,
        table: &mut dyn Table<SourceRangeKey, LetIn>,
        service: ServiceKey,
        clients: &[Cidr],
    ) -> Result<(), WriteError> {
        let wanted = wanted(service, clients);
        for (key, value) in wanted {
            if self.ranges.get(&key) != Some(&value) {
                table.write(&[(key, LetIn(value))])?;
                self.ranges.insert(key, value);
            }
        }
        Ok(())
    }

    /// Takes away what is not of `clients`; without any, all.
    fn trim(
        &mut self,
        table: &mut dyn Table<SourceRangeKey, LetIn>,
        service: ServiceKey,
        clients: &[Cidr],
    ) -> Result<usize, TableError> {
        let wanted = wanted(service, clients);
        // Who was refused by the rule for everybody may come in before those who were let in are forgotten.
        let gone: Vec<SourceRangeKey> = self
            .of(service)
            .filter(|(key, _)| !wanted.contains_key(key))
            .map(|(key, _)| *key)
            .collect();
        table.delete(&gone)?;
        for key in &gone {
            self.ranges.remove(key);
        }
        Ok(gone.len())
    }
}

/// In the order in which they are to be written.
fn wanted(service: ServiceKey, clients: &[Cidr]) -> BTreeMap<SourceRangeKey, bool> {
    if clients.is_empty() {
        return BTreeMap::new();
    }
    let family = service.address.is_ipv4();
    let let_in = clients.iter().filter(|c| c.address.is_ipv4() == family);
    let everybody = SourceRangeKey {
        service,
        clients: None,
    };
    let let_in = let_in.map(|clients| {
        // All of IPv6 is everybody: the trie has one entry for both.
        let all = clients.prefix == 0 && clients.address.is_ipv6();
        let clients = (!all).then_some(*clients);
        (SourceRangeKey { service, clients }, true)
    });
    [(everybody, false)].into_iter().chain(let_in).collect()
}

impl Engine {
    /// Restricts those of `vips` that are for clients outside before they are served; those that cannot be are taken out.
    pub(super) fn guard(&mut self, vips: &[ServiceKey]) -> Vec<ServiceKey> {
        let mut unguarded = Vec::new();
        for key in vips.iter().filter(|key| key.side == Side::Outside) {
            let clients = self.clients_of(key);
            let table = self.tables.source_ranges.as_mut();
            if let Err(e) = self.outside.add(table, *key, &clients) {
                let reason = super::commit::reason(&e, &mut self.usage.source_ranges);
                self.vip_failures.insert(*key, reason);
                unguarded.push(*key);
            }
        }
        self.count_ranges();
        if unguarded.is_empty() {
            return unguarded;
        }
        match self.tables.services.delete(&unguarded) {
            Ok(()) => unguarded.iter().for_each(|key| self.mirror.remove(key)),
            Err(e) => tracing::error!("addresses that cannot be restricted stay open: {e}"),
        }
        self.usage.services.entries = self.mirror.len();
        unguarded
    }

    /// Forgets ranges that are not wanted any more.
    pub(super) fn unguard(&mut self, vips: &[ServiceKey]) {
        for key in vips.iter().filter(|key| key.side == Side::Outside) {
            let clients = self.clients_of(key);
            let table = self.tables.source_ranges.as_mut();
            match self.outside.trim(table, *key, &clients) {
                Ok(gone) => self.usage.freed += gone as u64,
                Err(e) => tracing::warn!("source ranges that are gone stay for now: {e}"),
            }
        }
        self.count_ranges();
    }

    /// Forgets ranges of addresses that an earlier agent has restricted and nobody wants.
    pub(super) fn unguard_unowned(&mut self) {
        if self.phase != Phase::Settled {
            return;
        }
        let mut gone: Vec<ServiceKey> = self.outside.ranges.keys().map(|key| key.service).collect();
        gone.dedup();
        gone.retain(|key| !self.resources.assignments.contains_key(key));
        self.unguard(&gone);
    }

    /// Tells the kernel whether there is anything for clients outside.
    pub(super) fn open_to_outside(&mut self) {
        let any = self.mirror.has_outside();
        let settings = NatSettings {
            enabled: self.config.node_ports && any,
            ports: self.config.nat_ports,
        };
        if self.outside.settings == Some(settings) {
            return;
        }
        match self.tables.nat.write(&[(0, settings)]) {
            Ok(()) => self.outside.settings = Some(settings),
            Err(e) => tracing::warn!("clients outside are not served yet: {e}"),
        }
    }

    fn clients_of(&self, key: &ServiceKey) -> Vec<Cidr> {
        let owner = self.resources.owner(key);
        owner.map_or_else(Vec::new, |l| l.source_ranges.clone())
    }

    fn count_ranges(&mut self) {
        self.usage.source_ranges.entries = self.outside.len();
    }
}
