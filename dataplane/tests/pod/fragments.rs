//! Fragments follow the first one.

use crate::node::{A, B, Dropped, Egress, Node, Passed, deny, on_a_node};
use crate::packet::{Packet, tcp, too_big, udp};
use crate::skel::types::reason;

const FAMILIES: [(&str, &str); 2] = [
    ("10.1.0.1:1000", "10.1.0.2:2000"),
    ("[fd00:1::1]:1000", "[fd00:1::2]:2000"),
];

fn datagram(source: &str, destination: &str) -> Packet {
    udp(source, destination, &[7; 100])
}

fn dropped_because(node: &Node) -> reason {
    reason(node.events().pop().unwrap().reason)
}

#[test]
fn later_fragments_follow_the_first() {
    for (source, destination) in FAMILIES {
        on_a_node(|node| {
            let whole = datagram(source, destination);
            let [first, middle, last] =
                [(0, 48), (48, 48), (96, 48)].map(|(at, n)| whole.clone().fragment(9, at, n));
            assert_eq!(node.between(A, B, &first), Passed);
            assert_eq!(node.between(A, B, &middle), Passed);
            assert_eq!(node.between(A, B, &last), Passed);
            let flow = node.pending()[0];
            assert_eq!(flow.packets, [3, 0]);
            assert_eq!(flow.bytes[0], first.len() + middle.len() + last.len());
        });
    }
}

#[test]
fn a_lone_later_fragment_is_refused() {
    for (source, destination) in FAMILIES {
        on_a_node(|node| {
            let whole = datagram(source, destination);
            let later = whole.clone().fragment(9, 48, 100);
            assert_eq!(node.from(A, &later), Dropped);
            assert_eq!(dropped_because(node), reason::REASON_FRAGMENT);
            node.from(A, &whole.clone().fragment(8, 0, 48));
            assert_eq!(node.from(A, &later), Dropped, "of another datagram");
            node.from(A, &whole.fragment(9, 0, 48));
            assert_eq!(node.from(A, &later), Passed);
        });
    }
}

#[test]
fn fragments_of_a_refused_first_are_refused() {
    on_a_node(|node| {
        node.policy(A, Egress, &[deny(3)]);
        let whole = datagram("10.1.0.1:1000", "10.1.0.2:2000");
        assert_eq!(node.from(A, &whole.clone().fragment(9, 0, 48)), Dropped);
        assert_eq!(node.from(A, &whole.fragment(9, 48, 100)), Dropped);
        assert_eq!(dropped_because(node), reason::REASON_FRAGMENT);
    });
}

#[test]
fn later_fragments_are_judged_anew_as_all_packets() {
    on_a_node(|node| {
        let whole = datagram("10.1.0.1:1000", "10.1.0.2:2000");
        assert_eq!(node.from(A, &whole.clone().fragment(9, 0, 48)), Passed);
        node.policy(A, Egress, &[deny(3)]);
        node.epoch(2);
        assert_eq!(node.from(A, &whole.fragment(9, 48, 100)), Dropped);
        assert_eq!(dropped_because(node), reason::REASON_POLICY);
    });
}

#[test]
fn a_fragment_that_would_overwrite_the_header_is_malformed() {
    for (source, destination) in FAMILIES {
        on_a_node(|node| {
            let segment = tcp(source, destination).syn(1).data(&[0; 64]);
            assert_eq!(node.from(A, &segment.clone().fragment(5, 0, 24)), Passed);
            assert_eq!(node.from(A, &segment.clone().fragment(5, 24, 100)), Passed);
            assert_eq!(node.from(A, &segment.clone().fragment(5, 8, 100)), Dropped);
            assert_eq!(dropped_because(node), reason::REASON_MALFORMED);
            // A first one without the whole header.
            assert_eq!(node.from(A, &segment.fragment(6, 0, 16)), Dropped);
            assert_eq!(dropped_because(node), reason::REASON_MALFORMED);
        });
    }
}

#[test]
fn an_error_about_a_later_fragment_finds_its_flow() {
    for ((source, destination), router) in FAMILIES.into_iter().zip(["192.0.2.1", "2001:db8::1"]) {
        on_a_node(|node| {
            let whole = datagram(source, destination);
            let later = whole.clone().fragment(9, 48, 100);
            node.from(A, &whole.fragment(9, 0, 48));
            assert_eq!(node.to(A, &too_big(router, &later)), Passed);
        });
    }
}
