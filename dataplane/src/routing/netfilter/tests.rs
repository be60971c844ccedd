use netlink_packet_core::{NetlinkDeserializable, NetlinkHeader};

use super::message::{Message, attribute, attributes};
use super::rule::{ChainName, base_chain, is_harmless};

/// Families of linux/netfilter.h.
const IPV4: u8 = 2;
const NETDEV: u8 = 5;
/// Hooks of linux/netfilter.h.
const INPUT: u32 = 1;
const FORWARD: u32 = 2;
/// Verdicts of linux/netfilter.h and linux/netfilter/nf_tables.h.
const DROP: i32 = 0;
const ACCEPT: i32 = 1;
const JUMP: i32 = -3;
const RETURN: i32 = -5;

fn nla(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).expect("short");
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(family: u8, attributes: &[Vec<u8>]) -> Message {
    let payload = [&[family, 0, 0, 0][..], &attributes.concat()].concat();
    Message::deserialize(&NetlinkHeader::default(), &payload).expect("a message")
}

fn chain(family: u8, table: &str, hook: Option<u32>, policy: i32) -> Message {
    let mut attributes = vec![nla(1, table.as_bytes()), nla(3, b"chain\0")];
    if let Some(hook) = hook {
        attributes.push(nla(4, &nla(1, &hook.to_be_bytes())));
        attributes.push(nla(5, &policy.to_be_bytes()));
    }
    message(family, &attributes)
}

fn expression(name: &str, data: &[u8]) -> Vec<u8> {
    nla(1, &[nla(1, name.as_bytes()), nla(2, data)].concat())
}

fn verdict(code: i32, chain: &str) -> Vec<u8> {
    let verdict = [nla(1, &code.to_be_bytes()), nla(2, chain.as_bytes())].concat();
    let data = nla(2, &nla(2, &verdict));
    expression("immediate\0", &data)
}

fn harmless(expressions: &[Vec<u8>]) -> bool {
    let rule = [
        nla(1, b"filter\0"),
        nla(2, b"FORWARD\0"),
        nla(4, &expressions.concat()),
    ];
    is_harmless(&message(IPV4, &rule))
}

#[test]
fn base_chains_are_those_that_forwarded_packets_come_to() {
    let of = |family, table, hook| base_chain(&chain(family, table, hook, ACCEPT));
    let found = of(IPV4, "filter\0", Some(FORWARD)).expect("a base chain");
    let name = ChainName {
        family: IPV4,
        table: "filter".into(),
        chain: "chain".into(),
    };
    assert_eq!((found.name, found.accepts), (name, true));
    assert!(of(IPV4, "filter\0", Some(INPUT)).is_none());
    assert!(of(IPV4, "filter\0", None).is_none());
    assert!(of(IPV4, "kube-proxy\0", Some(FORWARD)).is_none());
    // Its hooks have other numbers: 1 is an interface's egress.
    assert!(of(NETDEV, "filter\0", Some(INPUT)).is_some());
    let drops = base_chain(&chain(IPV4, "filter\0", Some(FORWARD), DROP)).expect("a base chain");
    assert!(!drops.accepts);
}

#[test]
fn rules_that_only_look_are_harmless() {
    let looks = [expression("counter\0", &[]), expression("match\0", &[])];
    assert!(harmless(&looks));
    // `meta` that loads, and that sets.
    assert!(harmless(&[expression("meta\0", &nla(1, &[0; 4]))]));
    assert!(!harmless(&[expression("meta\0", &nla(3, &[0; 4]))]));
    // A look-up in a set, and in a map of verdicts.
    assert!(harmless(&[expression("lookup\0", &nla(1, b"set\0"))]));
    let map = [nla(1, b"map\0"), nla(3, &[0; 4])].concat();
    assert!(!harmless(&[expression("lookup\0", &map)]));
    for other in [
        "target\0",
        "nat\0",
        "masq\0",
        "reject\0",
        "queue\0",
        "unheard-of\0",
    ] {
        assert!(
            !harmless(&[looks[0].clone(), expression(other, &[])]),
            "{other}"
        );
    }
}

#[test]
fn verdicts_are_harmless_that_let_packets_through() {
    for code in [ACCEPT, RETURN] {
        assert!(harmless(&[verdict(code, "")]), "{code}");
    }
    assert!(!harmless(&[verdict(DROP, "")]));
    assert!(harmless(&[verdict(JUMP, "KUBE-FORWARD\0")]));
    assert!(!harmless(&[verdict(JUMP, "KUBE-ROUTER-FORWARD\0")]));
    assert!(!harmless(&[verdict(JUMP, "DOCKER-USER\0")]));
    // Without a verdict that can be read.
    assert!(!harmless(&[expression("immediate\0", &[])]));
}

#[test]
fn attributes_that_are_cut_off_end_the_list() {
    let whole = [nla(1, b"one"), nla(2, b"two")].concat();
    assert_eq!(attribute(&whole, 2), Some(&b"two"[..]));
    for end in 0..whole.len() {
        let part = whole.get(..end).unwrap_or_default();
        assert!(attributes(part).count() <= 2, "{end}");
    }
    // Lengths that cannot be.
    for length in [0_u8, 1, 3, 200] {
        assert_eq!(
            attributes(&[length, 0, 1, 0, 9, 9, 9, 9]).count(),
            0,
            "{length}"
        );
    }
}
