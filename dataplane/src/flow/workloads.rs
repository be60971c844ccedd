//! Connections in numbers, by who opened them to whom.
//!
//! A pair of workloads is one series of each metric; past the bound all others share one that says so. What a pair has is looked up by
//! where its names are in memory, which events of the same ends share, and costs no more than that.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use foldhash::HashMap;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use weft_proto::wire::flow::v1::Endpoint;

use super::buckets::Buckets;
use super::edges::Edge;
use super::{Direction, EventKind, NamedEvent, Reason};

/// Default of the bound on pairs.
pub const WORKLOAD_PAIRS: NonZeroUsize = NonZeroUsize::new(2_000).expect("not zero");
/// Places of names that are remembered.
const MOST_PLACES: usize = 16_384;
/// In place of every name, of the pairs beyond the bound.
const OVERFLOW: &str = "overflow";

/// The destination of what is handed over at a service's address.
const ENVOY: &str = "envoy";

/// Within a host, a rack, a region, the world.
const RTT_SECONDS: [f64; 12] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5,
];
/// From one request to a connection that a pool keeps.
const DURATION_SECONDS: [f64; 11] = [
    0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 10.0, 60.0, 600.0, 3_600.0, 86_400.0,
];

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PairLabels {
    source_namespace: String,
    source_workload: String,
    destination_namespace: String,
    destination_workload: String,
    service: String,
    /// Where it was seen: a connection between two nodes is counted by each, once.
    pub(super) direction: &'static str,
}

impl PairLabels {
    /// Of all pairs that are too many.
    pub(super) fn overflow(direction: &'static str) -> Self {
        let overflow = || OVERFLOW.to_owned();
        Self {
            source_namespace: overflow(),
            source_workload: overflow(),
            destination_namespace: overflow(),
            destination_workload: overflow(),
            service: overflow(),
            direction,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    #[prometheus(flatten)]
    pair: PairLabels,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SenderLabels {
    #[prometheus(flatten)]
    pair: PairLabels,
    /// The end that sent it.
    sender: &'static str,
}

/// Metrics of connections between workloads.
#[derive(Debug)]
pub struct WorkloadMetrics {
    most: NonZeroUsize,
    since: SystemTime,
    known: Mutex<Known>,
    opened: Family<PairLabels, Counter>,
    closed: Family<ReasonLabels, Counter>,
    denied: Family<ReasonLabels, Counter>,
    bytes: Family<SenderLabels, Counter>,
    packets: Family<SenderLabels, Counter>,
    retransmits: Family<PairLabels, Counter>,
    rtt: Histogram,
    duration: Histogram,
}

/// Source, destination and service by their places in memory, the direction, and whether Envoy has a part in it.
type Place = (usize, usize, usize, Option<Direction>, bool);

#[derive(Debug, Default)]
struct Known {
    places: HashMap<Place, Held>,
    pairs: HashMap<PairLabels, usize>,
    series: Vec<Series>,
}

#[derive(Debug)]
struct Held {
    series: usize,
    /// Kept, so that nothing else can be at their places.
    _names: (Arc<Endpoint>, Arc<Endpoint>, Arc<str>),
}

#[derive(Debug)]
struct Series {
    labels: PairLabels,
    opened: Counter,
    retransmits: Counter,
    bytes: [Counter; 2],
    packets: [Counter; 2],
    ended: Vec<((bool, Reason), Counter)>,
    rtt_us: Buckets,
    duration_us: Buckets,
}

impl WorkloadMetrics {
    /// With at most `most` pairs of workloads.
    #[must_use]
    pub fn new(most: NonZeroUsize) -> Self {
        Self {
            most,
            since: SystemTime::now(),
            known: Mutex::default(),
            opened: Family::default(),
            closed: Family::default(),
            denied: Family::default(),
            bytes: Family::default(),
            packets: Family::default(),
            retransmits: Family::default(),
            rtt: Histogram::new(RTT_SECONDS),
            duration: Histogram::new(DURATION_SECONDS),
        }
    }

    pub(crate) fn register(&self, r: &mut Registry) {
        let help = "Connections that were let through and answered";
        r.register("connections_opened", help, self.opened.clone());
        let help = "Connections that have ended, by how";
        r.register("connections_closed", help, self.closed.clone());
        let help = "Packets and connects that were refused, by why";
        r.register("connections_denied", help, self.denied.clone());
        let help = "Sent over connections that have ended, with IP headers";
        r.register_with_unit("connection_traffic", help, Unit::Bytes, self.bytes.clone());
        let help = "Packets of connections that have ended";
        r.register("connection_packets", help, self.packets.clone());
        let help = "TCP segments of connections that have ended that were sent again";
        r.register("connection_retransmits", help, self.retransmits.clone());
        let help = "Round-trip time of connections that have ended";
        r.register_with_unit("connection_rtt", help, Unit::Seconds, self.rtt.clone());
        let help = "How long connections that have ended were open";
        let duration = self.duration.clone();
        r.register_with_unit("connection_duration", help, Unit::Seconds, duration);
    }

    /// These have happened.
    pub(super) fn count(&self, events: &[NamedEvent]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for named in events {
            let series = known.find(named, self);
            match named.event.kind {
                EventKind::Open => drop(series.opened.inc()),
                EventKind::Close | EventKind::Expired => self.ended(series, named),
                EventKind::Denied => {
                    series.by_reason(self, true, named.event.reason);
                }
                // What is sent again is counted when its connection ends.
                EventKind::Retransmitted
                | EventKind::Audited
                | EventKind::Ejected
                | EventKind::Returned => {}
            }
        }
    }

    /// When counting began.
    pub(crate) const fn since(&self) -> SystemTime {
        self.since
    }

    /// All pairs, in the order in which they came. None ever goes.
    pub(crate) fn edges(&self) -> Vec<Edge> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.series.iter().map(Series::edge).collect()
    }

    /// Adds open connections to `edges`, which are [`WorkloadMetrics::edges`]' of before.
    pub(crate) fn add_open(&self, open: &[NamedEvent], edges: &mut Vec<Edge>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for named in open {
            let place = known.place(named, self);
            for series in known.series.iter().skip(edges.len()) {
                edges.push(series.edge());
            }
            if let Some(edge) = edges.get_mut(place) {
                edge.add_open(&named.event);
            }
        }
    }

    fn ended(&self, series: &mut Series, named: &NamedEvent) {
        let event = &named.event;
        series.by_reason(self, false, event.reason);
        for end in 0..2 {
            series.bytes[end].inc_by(event.bytes[end]);
            series.packets[end].inc_by(event.packets[end]);
        }
        series.retransmits.inc_by(event.retransmits.into());
        if event.rtt_us > 0 {
            self.rtt.observe(f64::from(event.rtt_us) / 1e6);
            series.rtt_us.add(event.rtt_us.into());
        }
        if event.first_ns > 0 {
            let nanos = event.time_ns.saturating_sub(event.first_ns);
            self.duration.observe(nanos as f64 / 1e9);
            series.duration_us.add(nanos / 1_000);
        }
    }

    fn series(&self, labels: PairLabels) -> Series {
        let by = |family: &Family<SenderLabels, Counter>, sender| {
            let pair = labels.clone();
            family.get_or_create(&SenderLabels { pair, sender }).clone()
        };
        Series {
            opened: self.opened.get_or_create(&labels).clone(),
            retransmits: self.retransmits.get_or_create(&labels).clone(),
            bytes: ["source", "destination"].map(|sender| by(&self.bytes, sender)),
            packets: ["source", "destination"].map(|sender| by(&self.packets, sender)),
            ended: Vec::new(),
            rtt_us: Buckets::default(),
            duration_us: Buckets::default(),
            labels,
        }
    }
}

impl Known {
    fn find(&mut self, named: &NamedEvent, metrics: &WorkloadMetrics) -> &mut Series {
        let place = self.place(named, metrics);
        &mut self.series[place]
    }

    fn place(&mut self, named: &NamedEvent, metrics: &WorkloadMetrics) -> usize {
        let [source, destination, service, _] = named.places();
        let event = &named.event;
        let place = (source, destination, service, event.direction, event.proxied);
        if let Some(held) = self.places.get(&place) {
            return held.series;
        }
        let series = self.of_pair(labels(named), metrics);
        if self.places.len() >= MOST_PLACES {
            self.places.clear();
        }
        let held = Held {
            series,
            _names: (
                Arc::clone(named.source()),
                Arc::clone(named.destination()),
                named.shared_service(),
            ),
        };
        self.places.insert(place, held);
        series
    }

    fn of_pair(&mut self, mut labels: PairLabels, metrics: &WorkloadMetrics) -> usize {
        let is_new = !self.pairs.contains_key(&labels);
        if is_new && self.pairs.len() >= metrics.most.get() {
            labels = PairLabels::overflow(labels.direction);
        }
        if let Some(series) = self.pairs.get(&labels) {
            return *series;
        }
        self.series.push(metrics.series(labels.clone()));
        self.pairs.insert(labels, self.series.len() - 1);
        self.series.len() - 1
    }
}

impl Series {
    fn edge(&self) -> Edge {
        let labels = &self.labels;
        let (mut closed, mut denied) = (0, Vec::new());
        for ((refused, reason), counter) in &self.ended {
            match refused {
                true => denied.push((*reason, counter.get())),
                false => closed += counter.get(),
            }
        }
        Edge {
            source: (
                labels.source_namespace.clone(),
                labels.source_workload.clone(),
            ),
            destination: (
                labels.destination_namespace.clone(),
                labels.destination_workload.clone(),
            ),
            service: labels.service.clone(),
            direction: labels.direction,
            opened: self.opened.get(),
            closed,
            denied,
            bytes: [self.bytes[0].get(), self.bytes[1].get()],
            retransmits: self.retransmits.get(),
            open: 0,
            rtt: self.rtt_us.clone(),
            duration: self.duration_us.clone(),
        }
    }

    fn by_reason(&mut self, metrics: &WorkloadMetrics, denied: bool, reason: Reason) {
        let sort = (denied, reason);
        if let Some((_, counter)) = self.ended.iter().find(|(known, _)| *known == sort) {
            counter.inc();
            return;
        }
        let family = if denied {
            &metrics.denied
        } else {
            &metrics.closed
        };
        let labels = ReasonLabels {
            pair: self.labels.clone(),
            reason: reason.word(),
        };
        let counter = family.get_or_create(&labels).clone();
        counter.inc();
        self.ended.push((sort, counter));
    }
}

pub(super) fn labels(named: &NamedEvent) -> PairLabels {
    let (source, destination) = (named.source(), named.destination());
    PairLabels {
        source_namespace: source.namespace.clone(),
        source_workload: workload(source),
        destination_namespace: destination.namespace.clone(),
        destination_workload: if is_to_envoy(named) {
            ENVOY.to_owned()
        } else {
            workload(destination)
        },
        service: named.service().to_owned(),
        direction: named.event.direction.map_or("", Direction::word),
    }
}

/// A pod's connection to a service of layer 7, whose address is nobody's: the node's Envoy answers.
fn is_to_envoy(named: &NamedEvent) -> bool {
    named.event.proxied && named.destination().workload.is_empty() && !named.service().is_empty()
}

/// What runs there, or who else policies would say it is. Never an address: there are too many.
fn workload(end: &Endpoint) -> String {
    match (end.workload.as_str(), end.identity_name.as_str()) {
        ("", "") => "unknown".to_owned(),
        ("", identity) => identity.to_owned(),
        (workload, _) => workload.to_owned(),
    }
}

#[cfg(test)]
mod tests;
