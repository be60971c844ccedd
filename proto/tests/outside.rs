//! Listeners for what comes from outside: what other servers may say, and what is refused.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr};

use weft_proto::convert::{decode_listener, encode_listener};
use weft_proto::envoy::envoy::config::core::v3::{CidrRange, Metadata, TrafficDirection};
use weft_proto::envoy::envoy::config::listener::v3::{FilterChainMatch, Listener as Pb};
use weft_proto::envoy::google::protobuf::{ListValue, Struct, UInt32Value, Value, value::Kind};
use weft_proto::model::{Layer, Listener, Protocol, Side};

fn listener(protocol: Protocol, side: Side, layer: Layer) -> Pb {
    encode_listener(&Listener {
        name: "l".to_owned(),
        service: None,
        addresses: vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))],
        port: 80,
        protocol,
        cluster: "c".to_owned(),
        layer,
        side,
        source_ranges: Vec::new(),
        health_check_port: None,
        idle_timeout: None,
        max_duration: None,
        connections_per_second: None,
    })
}

fn outside(protocol: Protocol) -> Pb {
    listener(protocol, Side::Outside, Layer::Four)
}

fn inside(protocol: Protocol) -> Pb {
    listener(protocol, Side::Inside, Layer::Four)
}

fn matching(address: &str, length: Option<u32>) -> Option<FilterChainMatch> {
    Some(FilterChainMatch {
        source_prefix_ranges: vec![CidrRange {
            address_prefix: address.to_owned(),
            prefix_len: length.map(|value| UInt32Value { value }),
        }],
        ..FilterChainMatch::default()
    })
}

fn told(name: &str, kind: Kind) -> Option<Metadata> {
    let value = Value { kind: Some(kind) };
    let fields = Struct {
        fields: [(name.to_owned(), value)].into(),
    };
    Some(Metadata {
        filter_metadata: [("weft".to_owned(), fields)].into(),
        ..Metadata::default()
    })
}

fn list(of: &[Kind]) -> Kind {
    let value = |kind: &Kind| Value {
        kind: Some(kind.clone()),
    };
    Kind::ListValue(ListValue {
        values: of.iter().map(value).collect(),
    })
}

fn text(text: &str) -> Kind {
    Kind::StringValue(text.to_owned())
}

fn ranges(pb: &Pb) -> Vec<String> {
    let listener = decode_listener(pb).unwrap();
    let ranges = listener.source_ranges.iter();
    ranges.map(ToString::to_string).collect()
}

fn refused(mut pb: Pb, change: impl FnOnce(&mut Pb), field: &str) {
    change(&mut pb);
    assert_eq!(decode_listener(&pb).unwrap_err().field, field);
}

#[test]
fn only_inbound_is_outside() {
    let mut pb = inside(Protocol::Tcp);
    assert_eq!(pb.traffic_direction(), TrafficDirection::Unspecified);
    for (direction, side) in [
        (TrafficDirection::Unspecified, Side::Inside),
        (TrafficDirection::Outbound, Side::Inside),
        (TrafficDirection::Inbound, Side::Outside),
    ] {
        pb.set_traffic_direction(direction);
        assert_eq!(decode_listener(&pb).unwrap().side, side);
    }
    refused(pb, |l| l.traffic_direction = 77, "traffic_direction");
}

#[test]
fn ranges_as_envoy_reads_them() {
    let mut pb = outside(Protocol::Tcp);
    for (address, length, range) in [
        ("10.1.2.3", Some(8), "10.0.0.0/8"),
        ("::ffff:10.1.2.3", Some(104), "10.0.0.0/8"),
        ("fd00::1", Some(128), "fd00::1/128"),
        ("10.0.0.0", None, "0.0.0.0/0"),
    ] {
        pb.filter_chains[0].filter_chain_match = matching(address, length);
        assert_eq!(ranges(&pb), [range]);
    }
    let mut pb = outside(Protocol::Udp);
    pb.metadata = told("sourceRanges", list(&[text("10.1.2.3/8"), text("::/0")]));
    assert_eq!(ranges(&pb), ["10.0.0.0/8", "::/0"]);
}

#[test]
fn bad_ranges() {
    const MATCH: &str = "filter_chains[0].filter_chain_match";
    for (address, length, field) in [
        ("example.com", Some(8), "address_prefix"),
        ("10.0.0.0", Some(33), "prefix_len"),
        ("10.0.0.0", Some(256), "prefix_len"),
    ] {
        refused(
            outside(Protocol::Tcp),
            |l| l.filter_chains[0].filter_chain_match = matching(address, length),
            &format!("{MATCH}.source_prefix_ranges[0].{field}"),
        );
    }
    refused(
        outside(Protocol::Tcp),
        |l| {
            let mut also = matching("10.0.0.0", Some(8)).unwrap();
            also.server_names.push("example.com".to_owned());
            l.filter_chains[0].filter_chain_match = Some(also);
        },
        MATCH,
    );
    refused(
        outside(Protocol::Tcp),
        |l| {
            let mut chain = l.filter_chains.remove(0);
            chain.filter_chain_match = matching("10.0.0.0", Some(8));
            l.default_filter_chain = Some(chain);
        },
        MATCH,
    );
    let udp = "metadata.weft.sourceRanges";
    for bad in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8", "x/8", ""] {
        refused(
            outside(Protocol::Udp),
            |l| l.metadata = told("sourceRanges", list(&[text("::/0"), text(bad)])),
            &format!("{udp}[1]"),
        );
    }
    for bad in [text("10.0.0.0/8"), Kind::NumberValue(8.0)] {
        refused(
            outside(Protocol::Udp),
            |l| l.metadata = told("sourceRanges", bad),
            udp,
        );
    }
    refused(
        outside(Protocol::Udp),
        |l| l.metadata = told("sourceRanges", list(&[Kind::NumberValue(8.0)])),
        &format!("{udp}[0]"),
    );
    refused(
        outside(Protocol::Tcp),
        |l| l.metadata = told("sourceRanges", list(&[text("::/0")])),
        udp,
    );
}

#[test]
fn bad_health_check_ports() {
    for bad in [0.0, -1.0, 65_536.0, 80.5, f64::NAN, f64::INFINITY] {
        refused(
            outside(Protocol::Udp),
            |l| l.metadata = told("healthCheckPort", Kind::NumberValue(bad)),
            "metadata.weft.healthCheckPort",
        );
    }
    refused(
        outside(Protocol::Tcp),
        |l| l.metadata = told("healthCheckPort", text("80")),
        "metadata.weft.healthCheckPort",
    );
}

#[test]
fn what_only_one_side_has() {
    refused(
        inside(Protocol::Tcp),
        |l| l.filter_chains[0].filter_chain_match = matching("10.0.0.0", Some(8)),
        "filter_chains[0].filter_chain_match.source_prefix_ranges",
    );
    refused(
        inside(Protocol::Udp),
        |l| l.metadata = told("sourceRanges", list(&[text("::/0")])),
        "metadata.weft.sourceRanges",
    );
    refused(
        inside(Protocol::Tcp),
        |l| l.metadata = told("healthCheckPort", Kind::NumberValue(80.0)),
        "metadata.weft.healthCheckPort",
    );
    refused(
        listener(Protocol::Tcp, Side::Inside, Layer::Seven),
        |l| l.set_traffic_direction(TrafficDirection::Inbound),
        "traffic_direction",
    );
}
