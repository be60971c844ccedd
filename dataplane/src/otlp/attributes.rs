//! What a span and its resource say, by the names of the semantic conventions; `weft.*` for the rest. docs/traces.md has the table.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_semantic_conventions::attribute as name;
use weft_proto::wire::flow::v1::Endpoint;

use super::wire::Attribute;
use crate::flow::{Event, NamedEvent, protocol};

/// Attributes that spans of one sort share, at most.
const MOST: usize = 26;
/// Names of what an end is, as [`who`] tells it.
const SOURCE: [&str; 6] = [
    "weft.source.namespace",
    "weft.source.workload",
    "weft.source.pod",
    "weft.source.service_account",
    "weft.source.node",
    "weft.source.identity",
];
const DESTINATION: [&str; 6] = [
    "weft.destination.namespace",
    "weft.destination.workload",
    "weft.destination.pod",
    "weft.destination.service_account",
    "weft.destination.node",
    "weft.destination.identity",
];

/// Attributes; what is empty is left out.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<KeyValue>);

impl Attributes {
    pub(super) fn text(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.put(key, Value::StringValue(value.to_owned()));
        }
    }

    pub(super) fn number(&mut self, key: &str, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.put(key, Value::IntValue(value));
    }

    fn put(&mut self, key: &str, value: Value) {
        self.0.push(KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
            ..Default::default()
        });
    }

    pub(super) fn done(self) -> Vec<KeyValue> {
        self.0
    }
}

/// Of whom a span tells: the workload at its end, or the node itself.
pub(super) fn resource(end: &Endpoint) -> Resource {
    let mut attributes = Attributes::default();
    let service = match end.workload.as_str() {
        "" => end.address.as_str(),
        workload => workload,
    };
    attributes.text(name::SERVICE_NAME, service);
    attributes.text(name::SERVICE_NAMESPACE, &end.namespace);
    attributes.text(name::K8S_NAMESPACE_NAME, &end.namespace);
    attributes.text(name::K8S_POD_NAME, &end.pod);
    attributes.text(name::K8S_NODE_NAME, &end.node);
    Resource {
        attributes: attributes.done(),
        ..Default::default()
    }
}

/// What a span about `named` shares with those of its sort ([`super::template`]).
pub(super) fn of_sort(named: &NamedEvent) -> Attributes {
    let event = &named.event;
    let mut attributes = Attributes(Vec::with_capacity(MOST));
    attributes.text(name::NETWORK_TRANSPORT, &protocol::word(event.protocol));
    let family = if event.destination.is_ipv4() {
        "ipv4"
    } else {
        "ipv6"
    };
    attributes.text(name::NETWORK_TYPE, family);
    attributes.text(name::SOURCE_ADDRESS, &named.source().address);
    who(&mut attributes, &SOURCE, named.source());
    attributes.text(name::DESTINATION_ADDRESS, &named.destination().address);
    attributes.number(name::DESTINATION_PORT, event.destination.port().into());
    who(&mut attributes, &DESTINATION, named.destination());
    let server = event.vip.unwrap_or(event.destination);
    asked_for(&mut attributes, server);
    attributes.text("weft.service", named.service());
    attributes.text("weft.verdict", named.verdict());
    attributes.text("weft.reason", event.reason.word());
    attributes.text("weft.policy", named.policy());
    attributes.text("weft.rule", named.rule());
    attributes.text("weft.path", named.path());
    attributes
}

/// What a span about `event` has for itself.
pub(super) fn of_its_own(event: &Event, mut put: impl FnMut(Attribute<'static>)) {
    let ([sent, received], [packets_sent, packets_received]) = (event.bytes, event.packets);
    put(Attribute::Number(
        name::SOURCE_PORT,
        event.source.port().into(),
    ));
    put(Attribute::Number("weft.bytes.sent", sent));
    put(Attribute::Number("weft.bytes.received", received));
    put(Attribute::Number("weft.packets.sent", packets_sent));
    put(Attribute::Number("weft.packets.received", packets_received));
    if event.rtt_us > 0 {
        put(Attribute::Number("weft.tcp.rtt_us", event.rtt_us.into()));
    }
    if event.retransmits > 0 {
        let retransmits = event.retransmits.into();
        put(Attribute::Number("weft.tcp.retransmits", retransmits));
    }
}

/// From whom to whom, and where that is.
pub(super) fn ends(
    attributes: &mut Attributes,
    (source, from): (&Endpoint, Option<SocketAddr>),
    (destination, to): (&Endpoint, Option<SocketAddr>),
) {
    let places = [
        (name::SOURCE_ADDRESS, name::SOURCE_PORT, from),
        (name::DESTINATION_ADDRESS, name::DESTINATION_PORT, to),
    ];
    for (address, port, at) in places {
        let Some(at) = at else { continue };
        attributes.text(address, &at.ip().to_string());
        attributes.number(port, at.port().into());
    }
    who(attributes, &SOURCE, source);
    who(attributes, &DESTINATION, destination);
}

fn asked_for(attributes: &mut Attributes, server: SocketAddr) {
    attributes.text(name::SERVER_ADDRESS, &server.ip().to_string());
    attributes.number(name::SERVER_PORT, server.port().into());
}

fn who(attributes: &mut Attributes, keys: &[&str; 6], end: &Endpoint) {
    let values = [
        &end.namespace,
        &end.workload,
        &end.pod,
        &end.service_account,
        &end.node,
        &end.identity_name,
    ];
    for (key, value) in keys.iter().zip(values) {
        attributes.text(key, value);
    }
}
