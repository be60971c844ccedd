//! Policy sets in the kernel.
//!
//! A set is written before a workload is sent to it, and deleted after the last one has left. What stands in `rules` is never
//! cleared: each rule names its set, so that a reader who came too late notices.

mod found;
mod learn;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::compile::{CompiledSet, Decision, FunctionIndex, Plan, Steps};
use crate::bpf::Arena;
use crate::tables::policy::{
    IdentityNumber, PeerKey, PolicySet, PolicyTables, RuleEntry, RuleRange, RuleReason, SetId,
    Verdict,
};
use crate::tables::{MapUsage, WriteError};
use found::FoundSet;

/// `MAX_RULES_OF_A_PEER`: a reader's search would not find its way through more.
const LARGEST: usize = 65_536;

/// What every set says of [`IdentityNumber::REFUSED`].
const REFUSED: Decision = Decision {
    verdict: Verdict::Deny,
    reason: RuleReason::NoRoom,
    rule: 0,
    audit: 0,
};

/// A set that workloads can be sent to.
#[derive(Debug)]
struct LiveSet {
    compiled: CompiledSet,
    /// Of each function.
    ranges: Vec<RuleRange>,
    /// Who has another function than the default, as it stands in the kernel.
    peers: HashMap<IdentityNumber, FunctionIndex>,
    /// Ranges that are this set's in the arena are numbered from 0.
    chunks: u32,
}

/// Everything in `rules` and `peer_rules`.
pub(super) struct Sets {
    live: HashMap<SetId, LiveSet>,
    by_plan: HashMap<Arc<Plan>, SetId>,
    found: HashMap<SetId, FoundSet>,
    arena: Arena<(SetId, u32)>,
    /// Identities that no set knows, and why: nothing in the kernel may have them.
    untold: BTreeMap<IdentityNumber, String>,
    /// Peers that stand in the kernel for no reason.
    garbage: BTreeSet<PeerKey>,
    rules: MapUsage,
    peers: MapUsage,
}

impl Sets {
    pub(super) fn by_plan(&self, plan: &Plan) -> Option<SetId> {
        self.by_plan.get(plan).copied()
    }

    /// What a workload's entry says of this set.
    pub(super) fn entry(&self, id: SetId) -> Option<PolicySet> {
        let rules = *self.live.get(&id)?.ranges.first()?;
        Some(PolicySet { id, rules })
    }

    /// Writes a set for `plan` under a new id; all of it or nothing.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn create(
        &mut self,
        tables: &mut PolicyTables,
        id: SetId,
        compiled: CompiledSet,
        peers: HashMap<IdentityNumber, FunctionIndex>,
    ) -> Result<(), String> {
        if !self.peers_usage().has_room(peers.len() + 1) {
            return Err(self.peers.refuse());
        }
        let mut functions: Vec<&Steps<Decision>> = compiled.functions().iter().collect();
        let refused = Steps::constant(REFUSED);
        functions.push(&refused);
        let mut ranges = self.write_rules(tables, (id, 0), &functions)?;
        let refused = ranges.pop().map(|range| (IdentityNumber::REFUSED, range));
        let set = LiveSet {
            compiled,
            ranges,
            peers,
            chunks: 1,
        };
        let own = set.peers.iter();
        let own = own.filter_map(|(peer, function)| Some((*peer, set.range(*function)?)));
        let all: Vec<_> = own.chain(refused).collect();
        if let Err(reason) = self.write_peers(tables, id, &all) {
            self.discard(tables, id, all.iter().map(|(identity, _)| *identity));
            self.arena.release((id, 0));
            return Err(reason);
        }
        self.by_plan.insert(Arc::clone(set.compiled.plan()), id);
        self.live.insert(id, set);
        Ok(())
    }

    /// Writes the rules of functions that have come since.
    fn add_functions(&mut self, tables: &mut PolicyTables, id: SetId) -> Result<(), String> {
        let Some(set) = self.live.get(&id) else {
            return Ok(());
        };
        let chunk = (id, set.chunks);
        let functions = set.compiled.functions().iter().skip(set.ranges.len());
        let functions: Vec<Steps<Decision>> = functions.cloned().collect();
        if functions.is_empty() {
            return Ok(());
        }
        let functions: Vec<&Steps<Decision>> = functions.iter().collect();
        let ranges = self.write_rules(tables, chunk, &functions)?;
        if let Some(set) = self.live.get_mut(&id) {
            set.ranges.extend(ranges);
            set.chunks += 1;
        }
        Ok(())
    }

    /// Whether some set judges these two differently.
    pub(super) fn tells_apart(&self, a: IdentityNumber, b: IdentityNumber) -> bool {
        let refused = |number| number == IdentityNumber::REFUSED;
        refused(a) != refused(b)
            || self
                .live
                .values()
                .any(|set| set.peers.get(&a) != set.peers.get(&b))
    }

    /// Deletes every set that no workload is sent to; returns the plans of those.
    pub(super) fn retain(
        &mut self,
        tables: &mut PolicyTables,
        used: &BTreeSet<SetId>,
    ) -> Vec<Arc<Plan>> {
        self.retain_found(used);
        let gone: Vec<SetId> = self
            .live
            .keys()
            .copied()
            .filter(|id| !used.contains(id))
            .collect();
        let mut plans = Vec::new();
        for id in gone {
            let Some(set) = self.live.remove(&id) else {
                continue;
            };
            let plan = Arc::clone(set.compiled.plan());
            if self.by_plan.get(&plan) == Some(&id) {
                self.by_plan.remove(&plan);
            }
            plans.push(plan);
            let peers = set.peers.keys().chain([&IdentityNumber::REFUSED]);
            self.garbage.extend(peers.map(|identity| PeerKey {
                set: id,
                identity: *identity,
            }));
            (0..set.chunks).for_each(|chunk| self.arena.release((id, chunk)));
        }
        self.sweep(tables);
        plans
    }

    pub(super) fn sweep(&mut self, tables: &mut PolicyTables) {
        if self.garbage.is_empty() {
            return;
        }
        let keys: Vec<PeerKey> = self.garbage.iter().copied().collect();
        match tables.peer_rules.delete(&keys) {
            Ok(()) => self.garbage.clear(),
            Err(e) => tracing::warn!("peers of sets that are gone stay for now: {e}"),
        }
    }

    /// How full `rules` is.
    pub(super) fn rules_usage(&self) -> MapUsage {
        let owned = self.arena.owners().map(|(_, range)| range.len());
        MapUsage {
            entries: owned.sum(),
            ..self.rules
        }
    }

    /// How full `peer_rules` is.
    pub(super) fn peers_usage(&self) -> MapUsage {
        let live = self.live.values().map(|set| set.peers.len() + 1);
        let found = self.found.values().map(|set| set.peers.len());
        MapUsage {
            entries: live.chain(found).sum::<usize>() + self.garbage.len(),
            ..self.peers
        }
    }

    fn write_rules(
        &mut self,
        tables: &mut PolicyTables,
        (set, chunk): (SetId, u32),
        functions: &[&Steps<Decision>],
    ) -> Result<Vec<RuleRange>, String> {
        let longest = functions.iter().map(|steps| steps.len()).max();
        if longest.is_some_and(|longest| longest > LARGEST) {
            return Err(format!(
                "policies cut the ports into more than {LARGEST} ranges: use fewer, longer ones"
            ));
        }
        let count = functions.iter().map(|steps| steps.len()).sum::<usize>();
        let range = u32::try_from(count)
            .ok()
            .and_then(|count| self.arena.allocate((set, chunk), count));
        let Some(range) = range else {
            return Err(self.rules.refuse());
        };
        let mut ranges = Vec::with_capacity(functions.len());
        let mut entries = Vec::with_capacity(count);
        let mut places = range;
        for steps in functions {
            ranges.push(RuleRange {
                base: places.start,
                count: steps.len() as u32,
            });
            for ((first, decision), place) in steps.iter().zip(&mut places) {
                entries.push((place, rule(set, first, decision)));
            }
        }
        if let Err(e) = tables.rules.write(&entries) {
            self.arena.release((set, chunk));
            return Err(e.to_string());
        }
        Ok(ranges)
    }

    fn write_peers(
        &mut self,
        tables: &mut PolicyTables,
        set: SetId,
        peers: &[(IdentityNumber, RuleRange)],
    ) -> Result<(), String> {
        let entry = |(identity, range): &(IdentityNumber, RuleRange)| {
            let identity = *identity;
            (PeerKey { set, identity }, *range)
        };
        let entries: Vec<_> = peers.iter().map(entry).collect();
        let written = tables.peer_rules.write(&entries);
        for (key, _) in &entries {
            self.garbage.remove(key);
        }
        written.map_err(|e| match e {
            WriteError::Full { .. } => self.peers.refuse(),
            WriteError::Failed(e) => e.to_string(),
        })
    }
}

impl LiveSet {
    fn range(&self, function: FunctionIndex) -> Option<RuleRange> {
        self.ranges.get(function.0).copied()
    }
}

const fn rule(set: SetId, first: u32, decision: Decision) -> RuleEntry {
    RuleEntry {
        first,
        set,
        verdict: decision.verdict,
        reason: decision.reason,
        rule: decision.rule,
        audit: decision.audit,
    }
}
