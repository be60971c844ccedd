//! Who talks to whom, as counts: of all connections that have ended, and of those that are open.

use weft_proto::wire::admin::v1 as wire;

use super::buckets::Buckets;
use super::{Direction, Event, EventKind, Reason};
use crate::conntrack::{Connection, State};

/// Counts of one pair of workloads since the agent started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edge {
    pub(crate) source: (String, String),
    pub(crate) destination: (String, String),
    pub(crate) service: String,
    pub(crate) direction: &'static str,
    pub(crate) opened: u64,
    pub(crate) closed: u64,
    pub(crate) denied: Vec<(Reason, u64)>,
    pub(crate) bytes: [u64; 2],
    pub(crate) retransmits: u64,
    pub(crate) open: u64,
    pub(crate) rtt: Buckets,
    pub(crate) duration: Buckets,
}

impl Edge {
    /// A connection of it is open.
    pub(crate) fn add_open(&mut self, event: &Event) {
        self.open += 1;
        for (sum, bytes) in self.bytes.iter_mut().zip(event.bytes) {
            *sum = sum.saturating_add(bytes);
        }
    }

    pub(crate) fn wire(self) -> wire::Edge {
        let [sent, received] = self.bytes;
        let denied = self.denied.into_iter().map(|(reason, count)| {
            let reason = reason.word().to_owned();
            wire::ReasonCount { reason, count }
        });
        wire::Edge {
            source_namespace: self.source.0,
            source_workload: self.source.1,
            destination_namespace: self.destination.0,
            destination_workload: self.destination.1,
            service: self.service,
            direction: self.direction.to_owned(),
            opened: self.opened,
            closed: self.closed,
            denied: denied.collect(),
            bytes: Some(super::traffic([sent, received])),
            retransmits: self.retransmits,
            open: self.open,
            rtt: self.rtt.counts(),
            duration: self.duration.counts(),
        }
    }
}

/// An open connection as the event of its beginning, so that it gets the names that its end will have; `None`: it has no answer
/// yet, or has ended, and is counted as an event or not at all.
pub(crate) fn opening(connection: &Connection) -> Option<Event> {
    if !matches!(connection.state, State::Established | State::Closing) {
        return None;
    }
    // As the kernel tells of its end: where both are local, the opener's side speaks.
    let direction = match connection.epoch {
        [0, _] => Direction::Ingress,
        _ => Direction::Egress,
    };
    let [source_identity, destination_identity] = connection.identity;
    Some(Event {
        kind: EventKind::Open,
        time_ns: connection.last_ns,
        first_ns: connection.first_ns,
        source: connection.source,
        destination: connection.destination,
        vip: None,
        protocol: connection.protocol,
        bytes: connection.bytes,
        packets: connection.packets,
        source_identity,
        destination_identity,
        rule: 0,
        audit: 0,
        service: connection.service,
        backend: 0,
        rtt_us: connection.rtt_us,
        retransmits: connection.retransmits,
        burst_ns: 0,
        direction: Some(direction),
        allowed: true,
        reason: connection.reason,
        tcp_flags: 0,
        isn: 0,
        accelerated: false,
        proxied: false,
    })
}
