//! UDP, SCTP and protocols that are not looked into: a reply makes a flow of them.

use crate::node::{A, B, Dropped, Passed, REMOTE_IDENTITY, on_a_node};
use crate::packet::{SCTP, other, sctp, udp};
use crate::skel::types::flow_state;

#[test]
fn a_reply_establishes() {
    for (client, server) in [
        ("10.1.0.1:5353", "10.1.0.2:53"),
        ("[fd00:1::1]:5353", "[fd00:1::2]:53"),
    ] {
        on_a_node(|node| {
            let query = udp(client, server, b"who?");
            let answer = udp(server, client, b"me");
            assert_eq!(node.between(A, B, &query), Passed);
            assert_eq!(node.between(A, B, &query), Passed);
            assert!(node.tracked().is_empty(), "a flood fills no table");
            assert_eq!(node.between(B, A, &answer), Passed);
            assert!(node.pending().is_empty());
            let flow = node.flow();
            assert!(flow.is(flow_state::FLOW_ESTABLISHED));
            assert_eq!(flow.packets, [2, 1]);
            assert_eq!(flow.bytes, [2 * query.len(), answer.len()]);
            assert_eq!(node.between(A, B, &query), Passed);
            assert_eq!(node.between(B, A, &answer), Passed);
            assert_eq!(node.flow().packets, [3, 2]);
        });
    }
}

#[test]
fn sctp_has_ports_and_others_have_none() {
    on_a_node(|node| {
        let there = sctp("10.1.0.1:1000", "10.1.0.2:2000");
        let back = sctp("10.1.0.2:2000", "10.1.0.1:1000");
        assert_eq!(node.between(A, B, &there), Passed);
        assert_eq!(node.between(B, A, &back), Passed);
        assert_eq!(node.tracked().len(), 1);
        assert_eq!(
            node.between(B, A, &sctp("10.1.0.2:2001", "10.1.0.1:1000")),
            Passed
        );
        assert_eq!(node.pending().len(), 1, "another port, another flow");
    });
    on_a_node(|node| {
        let there = other("10.1.0.1", "10.1.0.2", 47);
        let back = other("10.1.0.2", "10.1.0.1", 47);
        assert_eq!(node.between(A, B, &there), Passed);
        assert_eq!(node.between(B, A, &back), Passed);
        assert_eq!(node.tracked().len(), 1);
    });
}

#[test]
fn replies_need_no_policy_of_their_own_and_others_do() {
    on_a_node(|node| {
        node.peer(
            A,
            crate::node::Ingress,
            REMOTE_IDENTITY,
            &[crate::node::deny(7)],
        );
        let answer = udp("10.2.0.9:53", "10.1.0.1:5353", b"me");
        assert_eq!(node.to(A, &answer), Dropped, "nobody asked");
        assert!(node.pending().is_empty(), "a refused packet leaves nothing");
        node.from(A, &udp("10.1.0.1:5353", "10.2.0.9:53", b"who?"));
        assert_eq!(node.to(A, &answer), Passed);
        let stray = udp("10.2.0.9:54", "10.1.0.1:5353", b"me");
        assert_eq!(node.to(A, &stray), Dropped);
    });
}

#[test]
fn a_truncated_sctp_packet_is_refused() {
    on_a_node(|node| {
        let cut = other("10.1.0.1", "10.1.0.2", SCTP);
        assert_eq!(
            node.frame_from(A, &crate::packet::mangled(&cut, 3, 28)),
            Dropped
        );
    });
}
