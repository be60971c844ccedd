//! What one agent counts of one pair of workloads.

use std::collections::BTreeMap;

use weft_proto::wire::admin::v1::Edge;

use super::rates::Name;

/// After the name of a service that stands where a workload's would.
const SERVICE: &str = " (service)";

/// Which end's node has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The client's.
    Egress,
    /// The server's.
    Ingress,
}

/// What is counted apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) source: Name,
    pub(crate) destination: Name,
    /// "namespace/name", or empty.
    pub(crate) service: String,
    pub(crate) side: Side,
}

/// Counts since an agent started; of `open` how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) opened: u64,
    pub(crate) closed: u64,
    pub(crate) open: u64,
    /// By reason.
    pub(crate) denied: BTreeMap<String, u64>,
    /// Sent by the client, by the server.
    pub(crate) bytes: [u64; 2],
    pub(crate) retransmits: u64,
    pub(crate) rtt: Vec<u64>,
    pub(crate) duration: Vec<u64>,
}

impl Counts {
    /// As the agent says it.
    pub(crate) fn read(edge: &Edge) -> (Key, Self) {
        let name = |namespace: &str, name: &str| Name {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let key = Key {
            source: name(&edge.source_namespace, &edge.source_workload),
            destination: match edge.service.split_once('/') {
                // Refused before a backend was chosen, or on its way to Envoy, whose own connections have backends.
                Some((namespace, service)) if edge.destination_namespace.is_empty() => {
                    name(namespace, &format!("{service}{SERVICE}"))
                }
                _ => name(&edge.destination_namespace, &edge.destination_workload),
            },
            service: edge.service.clone(),
            side: match edge.direction.as_str() {
                "ingress" => Side::Ingress,
                _ => Side::Egress,
            },
        };
        let bytes = edge.bytes.unwrap_or_default();
        let denied = edge.denied.iter().map(|d| (d.reason.clone(), d.count));
        let counts = Self {
            opened: edge.opened,
            closed: edge.closed,
            open: edge.open,
            denied: denied.collect(),
            bytes: [bytes.sent, bytes.received],
            retransmits: edge.retransmits,
            rtt: edge.rtt.clone(),
            duration: edge.duration.clone(),
        };
        (key, counts)
    }

    /// Adds what another agent, or another pair, counts.
    pub(crate) fn add(&mut self, other: &Self) {
        self.opened = self.opened.saturating_add(other.opened);
        self.closed = self.closed.saturating_add(other.closed);
        self.open = self.open.saturating_add(other.open);
        for (reason, count) in &other.denied {
            let sum = self.denied.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        for end in 0..2 {
            self.bytes[end] = self.bytes[end].saturating_add(other.bytes[end]);
        }
        self.retransmits = self.retransmits.saturating_add(other.retransmits);
        add_places(&mut self.rtt, &other.rtt);
        add_places(&mut self.duration, &other.duration);
    }

    /// What was counted since `earlier`; `open` is that of now.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let denied = self.denied.iter().filter_map(|(reason, count)| {
            let before = earlier.denied.get(reason).copied().unwrap_or_default();
            let new = count.saturating_sub(before);
            (new > 0).then(|| (reason.clone(), new))
        });
        Self {
            opened: self.opened.saturating_sub(earlier.opened),
            closed: self.closed.saturating_sub(earlier.closed),
            open: self.open,
            denied: denied.collect(),
            bytes: [0, 1].map(|end| self.bytes[end].saturating_sub(earlier.bytes[end])),
            retransmits: self.retransmits.saturating_sub(earlier.retransmits),
            rtt: places_since(&self.rtt, &earlier.rtt),
            duration: places_since(&self.duration, &earlier.duration),
        }
    }

    /// Whether anything happened, or is.
    pub(crate) fn is_idle(&self) -> bool {
        self.opened == 0
            && self.closed == 0
            && self.open == 0
            && self.denied.is_empty()
            && self.bytes == [0, 0]
    }
}

fn add_places(places: &mut Vec<u64>, others: &[u64]) {
    if places.len() < others.len() {
        places.resize(others.len(), 0);
    }
    for (place, other) in places.iter_mut().zip(others) {
        *place = place.saturating_add(*other);
    }
}

fn places_since(places: &[u64], earlier: &[u64]) -> Vec<u64> {
    let before = earlier.iter().copied().chain(std::iter::repeat(0));
    let difference = places.iter().zip(before);
    difference
        .map(|(now, then)| now.saturating_sub(then))
        .collect()
}
