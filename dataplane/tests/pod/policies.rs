//! Rules as the programs find them.

use crate::node::{
    A, B, Dropped, Egress, Ingress, Passed, REMOTE_IDENTITY, Rule, allow, deny, on_a_node,
};
use crate::packet::{Packet, other, ping, sctp, tcp, udp};
use crate::skel::types::{event_type, reason};

const TCP: u32 = 0;
const UDP: u32 = 1 << 16;
const SCTP: u32 = 2 << 16;
const ICMP: u32 = 3 << 16;
const OTHER: u32 = 4 << 16;

#[test]
fn without_a_policy_nothing_passes() {
    on_a_node(|node| {
        node.forget_policy(A);
        let syn = tcp("10.1.0.1:1000", "10.2.0.9:80").syn(1);
        assert_eq!(node.from(A, &syn), Dropped);
        let event = node.events().pop().unwrap();
        assert_eq!(event.reason, reason::REASON_NOT_READY.0);
        assert_eq!(node.to(A, &udp("10.1.0.254:1", "10.1.0.1:2", b"")), Dropped);
        assert_eq!(
            node.from(B, &udp("10.1.0.2:1", "10.2.0.9:2", b"")),
            Passed,
            "others are ready"
        );
    });
}

#[test]
fn the_destination_port_decides_by_class() {
    on_a_node(|node| {
        node.policy(
            A,
            Egress,
            &[
                deny(1),
                allow(2).from(TCP | 80),
                deny(3).from(TCP | 82),
                allow(4).from(UDP | 53),
                deny(5).from(UDP | 54),
                allow(6).from(SCTP | 9),
                deny(7).from(SCTP | 10),
                allow(8).from(ICMP),
                deny(9).from(OTHER),
            ],
        );
        let segment = |port| tcp("10.1.0.1:1000", &format!("10.2.0.9:{port}")).syn(1);
        let datagram = |port| udp("10.1.0.1:1000", &format!("10.2.0.9:{port}"), b"");
        let chunk = |port| sctp("10.1.0.1:1000", &format!("10.2.0.9:{port}"));
        let cases: [(Packet, Option<u32>); 14] = [
            (segment(0), Some(1)),
            (segment(79), Some(1)),
            (segment(80), None),
            (segment(81), None),
            (segment(82), Some(3)),
            (segment(65535), Some(3)),
            (datagram(0), Some(3)),
            (datagram(53), None),
            (datagram(54), Some(5)),
            (chunk(8), Some(5)),
            (chunk(9), None),
            (chunk(10), Some(7)),
            (ping("10.1.0.1", "10.2.0.9", 1), None),
            (other("10.1.0.1", "10.2.0.9", 47), Some(9)),
        ];
        for (packet, refused_by) in cases {
            let outcome = node.from(A, &packet);
            let denied = node.events().pop().map(|event| event.rule);
            assert_eq!(denied, refused_by, "{packet:?}");
            assert_eq!(outcome == Dropped, refused_by.is_some());
        }
    });
}

#[test]
fn every_length_of_a_range_is_searched_to_its_ends() {
    for length in [1u32, 2, 3, 7, 64, 1000] {
        on_a_node(|node| {
            // Rule n decides from point 2n on.
            let rules: Vec<Rule> = (0..length).map(|n| deny(n + 1).from(2 * n)).collect();
            node.policy(A, Egress, &rules);
            for port in [0, 1, length - 1, length, 2 * length - 2, 2 * length - 1] {
                let syn = tcp("10.1.0.1:1", &format!("10.2.0.9:{port}")).syn(1);
                assert_eq!(node.from(A, &syn), Dropped);
                let rule = node.events().pop().unwrap().rule;
                assert_eq!(rule, port / 2 + 1, "port {port} of {length} rules");
            }
        });
    }
}

#[test]
fn a_peers_own_rules_come_before_everybody_elses() {
    on_a_node(|node| {
        node.policy(A, Egress, &[deny(1)]);
        node.peer(A, Egress, REMOTE_IDENTITY, &[allow(2)]);
        let far = udp("10.1.0.1:1", "10.2.0.9:2", b"");
        assert_eq!(node.from(A, &far), Passed);
        assert_eq!(node.pending()[0].rule, [2, 0]);
        assert_eq!(node.from(A, &udp("10.1.0.1:1", "10.9.9.9:2", b"")), Dropped);
    });
}

#[test]
fn both_pods_have_a_say() {
    on_a_node(|node| {
        node.policy(B, Ingress, &[deny(5).because(reason::REASON_ISOLATED)]);
        let syn = tcp("10.1.0.1:1000", "10.1.0.2:80").syn(1);
        assert_eq!(node.from(A, &syn), Passed);
        assert_eq!(node.to(B, &syn), Dropped);
        assert!(node.pending().is_empty(), "a refused packet leaves nothing");
        let event = node.events().pop().unwrap();
        assert_eq!(event.reason, reason::REASON_ISOLATED.0);
        assert_eq!((event.rule, event.interface), (5, B.interface));
        assert_eq!(event.identities, [A.identity, B.identity]);
    });
}

#[test]
fn reasons_are_those_of_the_rules() {
    for wanted in [
        reason::REASON_DEFAULT,
        reason::REASON_POLICY,
        reason::REASON_ISOLATED,
        reason::REASON_LAYER7,
    ] {
        on_a_node(|node| {
            node.policy(A, Egress, &[deny(1).because(wanted)]);
            assert_eq!(node.from(A, &udp("10.1.0.1:1", "10.2.0.9:2", b"")), Dropped);
            assert_eq!(node.events().pop().unwrap().reason, wanted.0);
        });
    }
}

#[test]
fn rules_of_another_set_are_never_used() {
    on_a_node(|node| {
        // The range was given to another set, and the workload's entry is still the old one.
        node.change_flows("rules", |rule| rule[4] ^= 0x80);
        assert_eq!(node.from(A, &udp("10.1.0.1:1", "10.2.0.9:2", b"")), Dropped);
        let event = node.events().pop().unwrap();
        assert_eq!(event.reason, reason::REASON_POLICY_CHANGING.0);
    });
}

#[test]
fn what_an_audited_policy_would_refuse_passes_and_is_told_once() {
    on_a_node(|node| {
        node.policy(A, Egress, &[allow(1).audited(77)]);
        let packet = udp("10.1.0.1:1", "10.2.0.9:2", b"");
        assert_eq!(node.from(A, &packet), Passed);
        assert_eq!(node.from(A, &packet), Passed);
        let events = node.events();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].kind, event_type::EVENT_AUDITED.0);
        assert_eq!((events[0].rule, events[0].audit), (1, 77));
    });
}
