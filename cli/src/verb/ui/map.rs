//! The map as the page gets it.

use serde::Serialize;

use crate::watch::{AgentState, Between, Name, Pair, Quantiles, Total, pairs};

/// Edges that a page is sent; the busiest, where there are more.
const MOST_EDGES: usize = 5_000;

/// Everything of one moment. Edges name their ends by their place in `nodes`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Map {
    /// Over how long rates are taken; 0: nothing was counted twice yet.
    seconds: f64,
    agents: Vec<Agent>,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// Edges that were left out.
    omitted: usize,
}

#[derive(Debug, Serialize)]
struct Agent {
    path: String,
    node: String,
    error: Option<String>,
    /// Events that found no room in the kernel.
    lost: u64,
    /// More connections are open than were looked at.
    partial: bool,
}

#[derive(Debug, Serialize)]
struct Node {
    namespace: String,
    name: String,
    /// A second: connections to it, connections that it opens.
    incoming: f64,
    outgoing: f64,
    denied: f64,
}

#[derive(Debug, Serialize)]
struct Edge {
    from: usize,
    to: usize,
    services: Vec<String>,
    /// A second.
    opened: f64,
    /// Now.
    open: u64,
    sent: f64,
    received: f64,
    retransmits: f64,
    denied: f64,
    /// Refusals within the window, by reason.
    reasons: Vec<(String, u64)>,
    /// Median and 95th percentile in microseconds.
    rtt: Option<[f64; 2]>,
    lasted: Option<[f64; 2]>,
}

impl Map {
    /// As `between` has it.
    pub(super) fn new(between: &Between, agents: Vec<AgentState>) -> Self {
        let seconds = match between.seconds {
            seconds if seconds > 0.0 => seconds,
            _ => f64::INFINITY,
        };
        let mut pairs = pairs(between);
        let omitted = pairs.len().saturating_sub(MOST_EDGES);
        if omitted > 0 {
            let weight = |p: &Pair| p.counts.opened + p.counts.denied.values().sum::<u64>();
            pairs.sort_by_key(|pair| std::cmp::Reverse(weight(pair)));
            pairs.truncate(MOST_EDGES);
        }
        let workloads = Total::of_workloads(&pairs);
        let names: Vec<&Name> = workloads.keys().collect();
        let place = |name: &Name| names.binary_search(&name).unwrap_or_default();
        let edges = pairs.iter().map(|p| edge(p, place, seconds));
        let node = |(name, total): (&Name, &Total)| Node {
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            incoming: total.counts.opened as f64 / seconds,
            outgoing: total.out as f64 / seconds,
            denied: total.counts.denied.values().sum::<u64>() as f64 / seconds,
        };
        Self {
            seconds: between.seconds,
            agents: agents.into_iter().map(agent).collect(),
            edges: edges.collect(),
            nodes: workloads.iter().map(node).collect(),
            omitted,
        }
    }
}

fn agent(state: AgentState) -> Agent {
    Agent {
        path: state.path.display().to_string(),
        node: state.node,
        error: state.error,
        lost: state.lost,
        partial: state.partial,
    }
}

fn edge(pair: &Pair, place: impl Fn(&Name) -> usize, seconds: f64) -> Edge {
    let counts = &pair.counts;
    let rate = |count: u64| count as f64 / seconds;
    let times = |places: &[u64]| Quantiles::of(places).map(|q| [q.p50, q.p95]);
    let reasons = counts.denied.iter();
    Edge {
        from: place(&pair.source),
        to: place(&pair.destination),
        services: pair.services.iter().cloned().collect(),
        opened: rate(counts.opened),
        open: counts.open,
        sent: rate(counts.bytes[0]),
        received: rate(counts.bytes[1]),
        retransmits: rate(counts.retransmits),
        denied: rate(counts.denied.values().sum()),
        reasons: reasons.map(|(reason, n)| (reason.clone(), *n)).collect(),
        rtt: times(&counts.rtt),
        lasted: times(&counts.duration),
    }
}
