//! Who is who: spoofed addresses, the node itself, CIDRs, and pods that take over an address.

use crate::node::{
    A, B, Dropped, Egress, HOST, HOST_IDENTITY, Ingress, Node, Passed, Rule, allow, deny, on_a_node,
};
use crate::packet::{ping, tcp, udp};
use crate::skel::types::{flow_state, identity_number, reason};

const WORLD: u32 = identity_number::IDENTITY_WORLD.0;

fn why(node: &Node) -> reason {
    reason(node.events().pop().unwrap().reason)
}

#[test]
fn a_pod_sends_from_its_own_addresses_only() {
    on_a_node(|node| {
        for source in ["10.1.0.2:1", "10.2.0.9:1", "10.1.0.254:1", "8.8.8.8:1"] {
            let spoofed = udp(source, "10.1.0.7:53", b"");
            assert_eq!(node.from(A, &spoofed), Dropped, "{source}");
            assert_eq!(why(node), reason::REASON_SPOOFED);
        }
        for source in ["[fd00:1::2]:1", "[fe80::1]:1"] {
            let spoofed = udp(source, "[fd00:1::7]:53", b"");
            assert_eq!(node.from(A, &spoofed), Dropped, "{source}");
            assert_eq!(why(node), reason::REASON_SPOOFED);
        }
    });
}

#[test]
fn nobody_sends_on_anothers_established_flow() {
    on_a_node(|node| {
        node.from(B, &udp("10.1.0.2:1", "10.2.0.9:53", b""));
        node.to(B, &udp("10.2.0.9:53", "10.1.0.2:1", b""));
        assert!(node.flow().is(flow_state::FLOW_ESTABLISHED));
        let spoofed = udp("10.1.0.2:1", "10.2.0.9:53", b"");
        assert_eq!(node.from(A, &spoofed), Dropped);
        assert_eq!(why(node), reason::REASON_SPOOFED);
    });
}

#[test]
fn what_is_for_somebody_else_does_not_reach_a_pod() {
    on_a_node(|node| {
        // As a bridge floods what it has not learnt.
        let flooded = udp("10.2.0.9:1", "10.1.0.2:2", b"");
        assert_eq!(node.to(A, &flooded), Dropped);
        assert_eq!(why(node), reason::REASON_MISDELIVERED);
        assert_eq!(node.to(B, &flooded), Passed);
    });
}

#[test]
fn groups_are_judged_by_each_members_policy() {
    on_a_node(|node| {
        node.policy(B, Ingress, &[deny(9)]);
        for group in ["224.0.0.251:5353", "255.255.255.255:5353"] {
            let packet = udp("10.2.0.9:5353", group, b"");
            assert_eq!(node.to(A, &packet), Passed);
            assert_eq!(node.to(B, &packet), Dropped);
        }
        let packet = udp("[fd00:2::9]:5353", "[ff02::fb]:5353", b"");
        assert_eq!(node.to(A, &packet), Passed);
        assert_eq!(node.to(B, &packet), Dropped);
        assert!(node.pending().is_empty());
    });
}

#[test]
fn the_node_itself_is_always_let_in_and_out() {
    on_a_node(|node| {
        node.policy(A, Ingress, &[deny(1)]);
        node.policy(A, Egress, &[deny(1)]);
        let probe = tcp("10.1.0.254:50000", "10.1.0.1:8080").syn(1);
        assert_eq!(node.to(A, &probe), Passed);
        assert_eq!(node.pending()[0].reason, reason::REASON_HOST.0);
        assert_eq!(node.pending()[0].identity[1], HOST_IDENTITY);
        assert_eq!(node.from(A, &ping("10.1.0.1", HOST, 3)), Passed);
        assert_eq!(node.from(A, &ping("10.1.0.1", "10.2.0.9", 3)), Dropped);
    });
}

#[test]
fn the_most_specific_cidr_names_the_stranger() {
    on_a_node(|node| {
        let from = |source: &str| udp(&format!("{source}:1"), "10.1.0.1:2", b"");
        node.cidr(96 + 16, "192.168.0.0", 301);
        node.cidr(96 + 24, "192.168.7.0", 302);
        node.cidr(64, "2001:db8::", 303);
        node.peer(A, Ingress, 301, &[deny(31)]);
        node.peer(A, Ingress, WORLD, &[deny(11)]);
        assert_eq!(node.to(A, &from("192.168.1.1")), Dropped);
        assert_eq!(node.events().pop().unwrap().rule, 31);
        assert_eq!(node.to(A, &from("192.168.7.1")), Passed);
        assert_eq!(node.to(A, &from("203.0.113.1")), Dropped);
        let event = node.events().pop().unwrap();
        assert_eq!((event.rule, event.identities), (11, [WORLD, A.identity]));
        let v6 = |source: &str| udp(&format!("[{source}]:1"), "[fd00:1::1]:2", b"");
        assert_eq!(node.to(A, &v6("2001:db8::5")), Passed);
        assert_eq!(node.to(A, &v6("2001:db8:0:1::5")), Dropped);
    });
}

#[test]
fn who_has_no_entry_in_a_shut_prefix_or_in_none_is_refused() {
    on_a_node(|node| {
        let refused = identity_number::IDENTITY_REFUSED.0;
        let no_room = Rule {
            reason: reason::REASON_NO_ROOM,
            ..deny(0)
        };
        node.peer(A, Ingress, refused, &[no_room]);
        let from = |source: &str| udp(&format!("{source}:1"), "10.1.0.1:2", b"");
        assert_eq!(node.to(A, &from("203.0.113.1")), Passed);
        node.cidr(96 + 24, "192.168.7.0", 302);
        node.cidr(96, "0.0.0.0", refused);
        node.epoch(2);
        let check = || {
            assert_eq!(node.to(A, &from("203.0.113.1")), Dropped);
            assert_eq!(why(node), reason::REASON_NO_ROOM);
            // Who has an entry, or is in a prefix of its own.
            assert_eq!(node.to(A, &from("10.2.0.9")), Passed);
            assert_eq!(node.to(A, &from("192.168.7.1")), Passed);
        };
        check();
        node.forget_cidr(96, "0.0.0.0");
        node.forget_cidr(0, "::");
        check();
    });
}

#[test]
fn a_pod_does_not_inherit_the_flows_of_its_address() {
    on_a_node(|node| {
        node.from(A, &udp("10.1.0.1:1", "10.2.0.9:53", b""));
        node.to(A, &udp("10.2.0.9:53", "10.1.0.1:1", b""));
        assert_eq!(node.flow().packets, [1, 1]);
        // A is gone, and B has its address now.
        node.identity(A.address, B.identity, B.interface, 0);
        node.policy(B, Ingress, &[deny(5)]);
        node.policy(B, Egress, &[allow(6)]);
        let late = udp("10.2.0.9:53", "10.1.0.1:1", b"");
        assert_eq!(node.to(B, &late), Dropped);
        assert!(node.tracked().is_empty());
    });
}
