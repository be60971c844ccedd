//! Sets that an earlier agent wrote: they serve until a workload leaves them, and one that says what is wanted is kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{LiveSet, REFUSED, Sets, rule};
use crate::bpf::Arena;
use crate::policy::compile::{CompiledSet, DEFAULT, Decision, FunctionIndex, Steps};
use crate::tables::policy::{
    IdentityNumber, LocalWorkload, PeerKey, PolicySet, PolicyTables, RuleEntry, RuleRange, SetId,
};
use crate::tables::{MapUsage, TableError};

/// A set that an earlier agent wrote.
#[derive(Debug, Default)]
pub(super) struct FoundSet {
    /// For everybody else, as the workloads sent there have it.
    default: Option<RuleRange>,
    pub(super) peers: HashMap<IdentityNumber, RuleRange>,
    chunks: u32,
}

impl Sets {
    /// Takes over what the tables hold.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(in crate::policy) fn read(
        tables: &PolicyTables,
        entries: &BTreeMap<u32, LocalWorkload>,
    ) -> Result<Self, TableError> {
        let mut found: HashMap<SetId, FoundSet> = HashMap::new();
        for (key, range) in tables.peer_rules.entries()? {
            let set = found.entry(key.set).or_default();
            set.peers.insert(key.identity, range);
        }
        for set in entries
            .values()
            .flat_map(|entry| [entry.egress, entry.ingress])
        {
            found.entry(set.id).or_default().default = Some(set.rules);
        }
        let mut arena = Arena::new(tables.rules.capacity() as u32);
        for (id, set) in &mut found {
            let ranges = set.peers.values().chain(&set.default);
            for range in ranges.copied().collect::<BTreeSet<_>>() {
                let places = range.base..range.base.saturating_add(range.count);
                if range.count > 0 && arena.adopt((*id, set.chunks), places) {
                    set.chunks += 1;
                }
            }
        }
        Ok(Self {
            live: HashMap::new(),
            by_plan: HashMap::new(),
            found,
            arena,
            untold: BTreeMap::new(),
            garbage: BTreeSet::new(),
            rules: MapUsage::of(&*tables.rules),
            peers: MapUsage::of(&*tables.peer_rules),
        })
    }

    /// Identities that found sets know.
    pub(in crate::policy) fn numbers(&self) -> impl Iterator<Item = IdentityNumber> + '_ {
        let found = self.found.values();
        found.flat_map(|set| set.peers.keys().copied())
    }

    /// Where the functions of `compiled` stand, if the set found there says the same of everybody.
    pub(in crate::policy) fn same(
        &self,
        tables: &PolicyTables,
        at: PolicySet,
        compiled: &CompiledSet,
        peers: &HashMap<IdentityNumber, FunctionIndex>,
    ) -> Option<Vec<RuleRange>> {
        same(tables, at, self.found.get(&at.id)?, compiled, peers)
    }

    /// Takes the found set over, with its functions where [`Sets::same`] said.
    pub(in crate::policy) fn claim(
        &mut self,
        id: SetId,
        ranges: Vec<RuleRange>,
        compiled: CompiledSet,
        peers: HashMap<IdentityNumber, FunctionIndex>,
    ) {
        let found = self.found.remove(&id);
        self.by_plan.insert(Arc::clone(compiled.plan()), id);
        let set = LiveSet {
            compiled,
            ranges,
            peers,
            chunks: found.map_or(0, |found| found.chunks),
        };
        self.live.insert(id, set);
    }

    /// Deletes found sets that no workload is sent to.
    pub(super) fn retain_found(&mut self, used: &BTreeSet<SetId>) {
        let unused = self.found.keys().filter(|id| !used.contains(id));
        for id in unused.copied().collect::<Vec<_>>() {
            if let Some(set) = self.found.remove(&id) {
                let peers = set.peers.into_keys();
                self.garbage
                    .extend(peers.map(|identity| PeerKey { set: id, identity }));
                (0..set.chunks).for_each(|chunk| self.arena.release((id, chunk)));
            }
        }
    }
}

/// Where the functions of `compiled` stand, if the found set is the same.
fn same(
    tables: &PolicyTables,
    at: PolicySet,
    found: &FoundSet,
    compiled: &CompiledSet,
    peers: &HashMap<IdentityNumber, FunctionIndex>,
) -> Option<Vec<RuleRange>> {
    let refused = found.peers.get(&IdentityNumber::REFUSED)?;
    if found.peers.len() != peers.len() + 1 {
        return None;
    }
    let mut ranges: Vec<Option<RuleRange>> = vec![None; compiled.functions().len()];
    let mut places: Vec<(FunctionIndex, RuleRange)> = vec![(DEFAULT, at.rules)];
    for (peer, function) in peers {
        places.push((*function, *found.peers.get(peer)?));
    }
    for (function, range) in places {
        let known = ranges.get_mut(function.0)?;
        if *known == Some(range) {
            continue;
        }
        if !stands(tables, at.id, range, compiled.functions().get(function.0)?) {
            return None;
        }
        known.get_or_insert(range);
    }
    if !stands(tables, at.id, *refused, &Steps::constant(REFUSED)) {
        return None;
    }
    ranges.into_iter().collect()
}

/// Whether this range holds this function of this set.
fn stands(tables: &PolicyTables, set: SetId, range: RuleRange, function: &Steps<Decision>) -> bool {
    let read = |place: u32| tables.rules.get(&place).ok().flatten();
    let rules: Vec<Option<RuleEntry>> = match range.count as usize == function.len() {
        true => (0..range.count)
            .map(|i| read(range.base.wrapping_add(i)))
            .collect(),
        false => return false,
    };
    let wanted = function.iter();
    rules
        .into_iter()
        .eq(wanted.map(|(first, decision)| Some(rule(set, first, decision))))
}
