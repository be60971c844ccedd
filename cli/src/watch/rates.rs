//! What happened between workloads, merged over the nodes that have seen it.

use std::collections::{BTreeMap, BTreeSet};

use super::history::Between;
use super::{Counts, Side};

/// Namespace and name of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    /// Empty: it is of none.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// Two workloads, and what happened from the one to the other.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) source: Name,
    pub(crate) destination: Name,
    /// By which services, as far as is known.
    pub(crate) services: BTreeSet<String>,
    pub(crate) counts: Counts,
}

/// What happened to a service or workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Total {
    pub(crate) counts: Counts,
    /// Connections that it opened itself.
    pub(crate) out: u64,
}

#[derive(Default)]
struct Sides {
    services: BTreeSet<String>,
    egress: Counts,
    ingress: Counts,
}

impl Sides {
    /// A connection between two nodes is counted by each, if both are asked: then the two sides are alike. Where they are not, not
    /// all nodes are asked, and the side with more has seen more. What is refused is seen by one of them only.
    fn merged(self) -> Counts {
        let seen = |side: &Counts| (side.opened.max(side.closed), side.open);
        let (mut more, less) = match seen(&self.egress) >= seen(&self.ingress) {
            true => (self.egress, self.ingress),
            false => (self.ingress, self.egress),
        };
        let refused = Counts {
            denied: less.denied,
            ..Counts::default()
        };
        more.add(&refused);
        more
    }
}

/// All pairs of workloads between which something happened.
pub(crate) fn pairs(between: &Between) -> Vec<Pair> {
    let mut sides: BTreeMap<(Name, Name), Sides> = BTreeMap::new();
    for (key, counts) in &between.counts {
        let ends = (key.source.clone(), key.destination.clone());
        let pair = sides.entry(ends).or_default();
        match key.side {
            Side::Egress => pair.egress.add(counts),
            Side::Ingress => pair.ingress.add(counts),
        }
        if !key.service.is_empty() {
            pair.services.insert(key.service.clone());
        }
    }
    let pair = |((source, destination), mut sides): ((Name, Name), Sides)| Pair {
        source,
        destination,
        services: std::mem::take(&mut sides.services),
        counts: sides.merged(),
    };
    sides.into_iter().map(pair).collect()
}

/// All services that were asked for. Only the client's node knows which.
pub(crate) fn services(between: &Between) -> BTreeMap<String, Counts> {
    let mut found: BTreeMap<String, Counts> = BTreeMap::new();
    for (key, counts) in &between.counts {
        if key.side == Side::Egress && !key.service.is_empty() {
            found.entry(key.service.clone()).or_default().add(counts);
        }
    }
    found
}

impl Total {
    /// Workloads, with what came to them; what was refused counts at both ends.
    pub(crate) fn of_workloads(pairs: &[Pair]) -> BTreeMap<Name, Self> {
        let mut found: BTreeMap<Name, Self> = BTreeMap::new();
        for pair in pairs {
            let to = found.entry(pair.destination.clone()).or_default();
            to.counts.add(&pair.counts);
            if pair.source == pair.destination {
                to.out += pair.counts.opened;
                continue;
            }
            let from = found.entry(pair.source.clone()).or_default();
            from.out += pair.counts.opened;
            from.counts.add(&Counts {
                denied: pair.counts.denied.clone(),
                ..Counts::default()
            });
        }
        found
    }
}
