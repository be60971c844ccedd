//! A connection as people see it.

use weft_proto::wire::admin::v1 as wire;

use super::{Connection, Timeouts};
use crate::flow::{Clock, Names, endpoint, object, protocol, traffic};

const NANOS_PER_MILLI: u64 = 1_000_000;

/// With names for its numbers, as of `clock`.
pub(crate) fn describe(
    connection: &Connection,
    names: &dyn Names,
    clock: &Clock,
    timeouts: &Timeouts,
) -> wire::Connection {
    let [source, destination] = connection.identity;
    let policy = |id| {
        let name = names.rule(id);
        name.map_or_else(String::new, |name| object(&name.object))
    };
    let [egress, ingress] = connection.rule.map(policy);
    wire::Connection {
        state: connection.state.word().to_owned(),
        protocol: protocol::word(connection.protocol),
        source: Some(endpoint(connection.source, source, names)),
        destination: Some(endpoint(connection.destination, destination, names)),
        service: names.service(connection.service).unwrap_or_default(),
        reason: connection.reason.word().to_owned(),
        egress_policy: egress,
        ingress_policy: ingress,
        bytes: Some(traffic(connection.bytes)),
        packets: Some(traffic(connection.packets)),
        age_ms: clock.since(connection.first_ns) / NANOS_PER_MILLI,
        idle_ms: clock.since(connection.last_ns) / NANOS_PER_MILLI,
        expires_in_ms: clock.until(connection.expires_ns(timeouts)) / NANOS_PER_MILLI,
        rtt_us: connection.rtt_us,
        retransmits: connection.retransmits,
        picked_up: connection.picked_up,
    }
}
