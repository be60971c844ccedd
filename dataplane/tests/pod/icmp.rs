//! Echo, and errors about tracked flows.

use crate::node::{A, B, Dropped, HOST, Ingress, Passed, REMOTE, REMOTE_IDENTITY, deny, on_a_node};
use crate::packet::{icmp, other, ping, pong, tcp, too_big, truncated, udp};
use crate::skel::types::{flow_state, reason};

const ROUTER: &str = "192.0.2.1";
const ROUTER6: &str = "2001:db8::1";

#[test]
fn an_echo_is_a_flow_by_its_identifier() {
    for (here, there) in [("10.1.0.1", "10.1.0.2"), ("fd00:1::1", "fd00:1::2")] {
        on_a_node(|node| {
            assert_eq!(node.between(A, B, &ping(here, there, 7)), Passed);
            assert_eq!(node.between(B, A, &pong(there, here, 7)), Passed);
            assert!(node.flow().is(flow_state::FLOW_ESTABLISHED));
            assert_eq!(node.between(A, B, &ping(here, there, 7)), Passed);
            assert_eq!(node.flow().packets, [2, 1]);
        });
    }
}

#[test]
fn a_request_that_crosses_another_is_judged_by_itself() {
    on_a_node(|node| {
        node.between(A, B, &ping("10.1.0.1", "10.1.0.2", 7));
        node.between(B, A, &pong("10.1.0.2", "10.1.0.1", 7));
        node.policy(A, Ingress, &[deny(8)]);
        let crossing = ping("10.1.0.2", "10.1.0.1", 7);
        assert_eq!(node.from(B, &crossing), Passed);
        assert_eq!(node.to(A, &crossing), Dropped, "it is no reply");
        assert_eq!(node.to(A, &pong("10.1.0.2", "10.1.0.1", 7)), Passed);
    });
}

#[test]
fn errors_about_tracked_flows_pass_in_both_directions() {
    let v4 = ("10.1.0.1:40000", "10.2.0.9:80", ROUTER);
    let v6 = ("[fd00:1::1]:40000", "[fd00:2::9]:80", ROUTER6);
    for (near, far, router) in [v4, v6] {
        on_a_node(|node| {
            node.peer(A, Ingress, 1, &[deny(3)]);
            let sent = tcp(near, far).syn(1);
            node.from(A, &sent);
            assert_eq!(node.to(A, &too_big(router, &sent)), Passed, "pending");
            node.to(A, &tcp(far, near).syn(9).ack(2));
            assert_eq!(node.to(A, &too_big(router, &sent)), Passed, "tracked");
            // About the other direction, from the pod itself.
            let received = tcp(far, near).sequence(10).ack(2);
            let pod = near.trim_start_matches('[').split([']', '.']).next();
            assert!(pod.is_some());
            let address = if near.starts_with('[') {
                A.address6
            } else {
                A.address
            };
            assert_eq!(node.from(A, &too_big(address, &received)), Passed);
        });
    }
}

#[test]
fn errors_about_nothing_known_are_refused() {
    on_a_node(|node| {
        let sent = udp("10.1.0.1:1", "10.2.0.9:2", b"");
        assert_eq!(node.to(A, &too_big(ROUTER, &sent)), Dropped);
        assert_eq!(
            node.events().pop().unwrap().reason,
            reason::REASON_UNRELATED.0
        );
        assert_eq!(
            node.to(A, &too_big(HOST, &sent)),
            Passed,
            "but for the node's own"
        );
    });
}

#[test]
fn an_error_quotes_what_its_receiver_sent() {
    on_a_node(|node| {
        let sent = udp("10.1.0.1:1", "10.1.0.2:2", b"");
        node.between(A, B, &sent);
        let back = udp("10.1.0.2:2", "10.1.0.1:1", b"");
        node.between(B, A, &back);
        // To A about what B sent.
        let mut frame = too_big(ROUTER, &back).frame();
        frame[14 + 16..14 + 20].copy_from_slice(&[10, 1, 0, 1]);
        assert_eq!(node.frame_to(A, &frame), Dropped);
        // From a pod about a flow that is not its own.
        let stranger = udp("10.2.0.9:5", "10.1.0.2:6", b"");
        node.to(B, &stranger);
        assert_eq!(node.from(A, &too_big(A.address, &stranger)), Dropped);
        assert_eq!(node.from(B, &too_big(B.address, &stranger)), Passed);
    });
}

#[test]
fn errors_about_echoes_and_portless_flows_find_them() {
    on_a_node(|node| {
        let request = ping("10.1.0.1", REMOTE, 77);
        node.from(A, &request);
        assert_eq!(node.to(A, &too_big(ROUTER, &request)), Passed);
        let tunnel = other("10.1.0.1", REMOTE, 47);
        assert_eq!(node.to(A, &too_big(ROUTER, &tunnel)), Dropped);
        node.from(A, &tunnel);
        assert_eq!(node.to(A, &too_big(ROUTER, &tunnel)), Passed);
    });
}

#[test]
fn an_error_that_quotes_too_little_is_malformed() {
    on_a_node(|node| {
        let sent = udp("10.1.0.1:1", "10.2.0.9:2", b"");
        node.from(A, &sent);
        let error = too_big(ROUTER, &sent);
        let mut frame = truncated(&error, 20 + 8 + 20);
        frame[14 + 3] = 48;
        assert_eq!(node.frame_to(A, &frame), Dropped);
        assert_eq!(
            node.events().pop().unwrap().reason,
            reason::REASON_MALFORMED.0
        );
    });
}

#[test]
fn other_messages_are_judged() {
    on_a_node(|node| {
        let timestamp = icmp(REMOTE, "10.1.0.1", 13);
        assert_eq!(node.to(A, &timestamp), Passed);
        node.peer(A, Ingress, REMOTE_IDENTITY, &[deny(5)]);
        let redirect = icmp(REMOTE, "10.1.0.1", 5);
        node.epoch(2);
        assert_eq!(node.to(A, &redirect), Dropped);
    });
}
