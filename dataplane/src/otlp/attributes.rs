//! What a span and its resource say, by the names of the semantic conventions; `weft.*` for the rest. docs/traces.md has the table.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_semantic_conventions::attribute as name;
use weft_proto::wire::flow::v1::Endpoint;

use crate::flow::{NamedEvent, protocol};

/// Attributes of a span, but for those of errors.
const MOST: usize = 34;

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
#[derive(Default)]
pub(super) struct Attributes(Vec<KeyValue>);

impl Attributes {
    pub(super) fn text(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.put(key, Value::StringValue(value.to_owned()));
        }
    }

    pub(super) fn number(&mut self, key: &str, value: u64) {
        self.put(
            key,
            Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)),
        );
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

/// Of a span about `named`; `path` and `word` are those of [`NamedEvent`]'s flow.
pub(super) fn of_event(named: &NamedEvent) -> Vec<KeyValue> {
    let event = &named.event;
    let mut attributes = Attributes(Vec::with_capacity(MOST));
    attributes.text(name::NETWORK_TRANSPORT, &protocol::word(event.protocol));
    let family = if event.destination.is_ipv4() {
        "ipv4"
    } else {
        "ipv6"
    };
    attributes.text(name::NETWORK_TYPE, family);
    let ends = [
        (
            &SOURCE,
            name::SOURCE_ADDRESS,
            name::SOURCE_PORT,
            named.source(),
            event.source,
        ),
        (
            &DESTINATION,
            name::DESTINATION_ADDRESS,
            name::DESTINATION_PORT,
            named.destination(),
            event.destination,
        ),
    ];
    for (keys, address, port, end, at) in ends {
        attributes.text(address, &end.address);
        attributes.number(port, at.port().into());
        who(&mut attributes, keys, end);
    }
    let server = event.vip.unwrap_or(event.destination);
    asked_for(&mut attributes, server);
    attributes.text("weft.service", named.service());
    attributes.text("weft.verdict", named.verdict());
    attributes.text("weft.reason", event.reason.word());
    attributes.text("weft.policy", named.policy());
    attributes.text("weft.rule", named.rule());
    attributes.text("weft.path", named.path());
    let [sent, received] = event.bytes;
    attributes.number("weft.bytes.sent", sent);
    attributes.number("weft.bytes.received", received);
    let [sent, received] = event.packets;
    attributes.number("weft.packets.sent", sent);
    attributes.number("weft.packets.received", received);
    if event.rtt_us > 0 {
        attributes.number("weft.tcp.rtt_us", event.rtt_us.into());
    }
    if event.retransmits > 0 {
        attributes.number("weft.tcp.retransmits", event.retransmits.into());
    }
    attributes.done()
}

/// Which workloads these are.
pub(super) fn ends(attributes: &mut Attributes, source: &Endpoint, destination: &Endpoint) {
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
