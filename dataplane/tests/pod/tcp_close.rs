//! The end of TCP connections: FIN, RST, and what comes after.

use crate::node::{A, B, Dropped, Node, Passed, on_a_node};
use crate::packet::{FIN, Packet, RST, tcp};
use crate::skel::types::{event_type, flow_state, reason};

const CLIENT: &str = "10.1.0.1:40000";
const SERVER: &str = "10.1.0.2:80";
const FAR: &str = "10.2.0.9:80";

/// Client and server both stand at 1001 and 5001.
fn open(node: &Node) {
    node.between(A, B, &tcp(CLIENT, SERVER).syn(1000));
    node.between(B, A, &tcp(SERVER, CLIENT).syn(5000).ack(1001));
    node.between(A, B, &client());
    assert!(node.flow().is(flow_state::FLOW_ESTABLISHED));
    node.events();
}

fn client() -> Packet {
    tcp(CLIENT, SERVER).sequence(1001).ack(5001)
}

fn server() -> Packet {
    tcp(SERVER, CLIENT).sequence(5001).ack(1001)
}

fn ends(node: &Node) -> Vec<reason> {
    let events = node.events();
    events
        .iter()
        .filter(|event| event.kind == event_type::EVENT_CLOSE.0)
        .map(|event| reason(event.reason))
        .collect()
}

#[test]
fn two_fins_close_and_it_is_told_once() {
    on_a_node(|node| {
        open(node);
        assert_eq!(node.between(A, B, &client().flags(FIN)), Passed);
        assert!(node.flow().is(flow_state::FLOW_CLOSING));
        let rest = server().ack(1002).data(b"the rest");
        assert_eq!(node.between(B, A, &rest), Passed);
        let fin = server().sequence(5009).ack(1002).flags(FIN);
        assert_eq!(node.between(B, A, &fin), Passed);
        assert!(node.flow().is(flow_state::FLOW_CLOSED));
        let last = client().sequence(1002).ack(5010);
        assert_eq!(node.between(A, B, &last), Passed);
        assert_eq!(node.between(B, A, &fin), Passed, "sent again");
        assert_eq!(ends(node), [reason::REASON_FIN]);
    });
}

#[test]
fn nothing_new_passes_a_closed_flow() {
    on_a_node(|node| {
        open(node);
        node.between(A, B, &client().flags(FIN));
        node.between(B, A, &server().flags(FIN));
        let more = client().sequence(1002).data(b"more");
        assert_eq!(node.from(A, &more), Dropped);
        let events = node.events();
        let last = events.last().unwrap();
        assert_eq!(last.reason, reason::REASON_TCP_HANDSHAKE.0);
    });
}

#[test]
fn a_syn_restarts_a_closed_flow() {
    on_a_node(|node| {
        open(node);
        node.between(A, B, &client().flags(FIN));
        node.between(B, A, &server().flags(FIN));
        let syn = tcp(CLIENT, SERVER).syn(90_000);
        assert_eq!(node.between(A, B, &syn), Passed);
        let answer = tcp(SERVER, CLIENT).syn(70_000).ack(90_001);
        assert_eq!(node.between(B, A, &answer), Passed);
        let flow = node.flow();
        assert!(flow.is(flow_state::FLOW_SYN_RECEIVED));
        assert_eq!(flow.packets, [1, 1]);
        assert_eq!(ends(node), [reason::REASON_FIN]);
    });
}

#[test]
fn a_new_connection_between_the_same_ports_replaces_a_dead_one() {
    on_a_node(|node| {
        open(node);
        // The client has crashed and come back.
        assert_eq!(node.between(A, B, &tcp(CLIENT, SERVER).syn(90_000)), Passed);
        assert!(node.flow().is(flow_state::FLOW_ESTABLISHED));
        assert_eq!(ends(node), []);
        let answer = tcp(SERVER, CLIENT).syn(70_000).ack(90_001);
        assert_eq!(node.between(B, A, &answer), Passed);
        assert!(node.flow().is(flow_state::FLOW_SYN_RECEIVED));
        assert_eq!(ends(node), [reason::REASON_RST]);
    });
}

#[test]
fn the_other_end_opens_in_its_own_name() {
    on_a_node(|node| {
        open(node);
        node.policy(B, crate::node::Egress, &[crate::node::deny(66)]);
        // From the port that served: a new connection, and not the client's to allow.
        assert_eq!(node.from(B, &tcp(SERVER, CLIENT).syn(1)), Dropped);
        let last = node.events().pop().unwrap();
        assert_eq!((last.rule, last.reason), (66, reason::REASON_POLICY.0));
    });
}

#[test]
fn a_reset_ends_at_once() {
    for (source, target, reset) in [
        (A, B, client().flags(RST)),
        (B, A, server().flags(RST)),
        (B, A, tcp(SERVER, CLIENT).sequence(5001).flags(RST)),
    ] {
        on_a_node(|node| {
            open(node);
            assert_eq!(node.between(source, target, &reset), Passed);
            assert!(node.tracked().is_empty());
            assert_eq!(ends(node), [reason::REASON_RST]);
        });
    }
}

#[test]
fn a_reset_after_data_in_flight_ends_too() {
    on_a_node(|node| {
        open(node);
        node.between(B, A, &server().data(b"not acknowledged"));
        let reset = server().sequence(5001 + 16).flags(RST);
        assert_eq!(node.between(B, A, &reset), Passed);
        assert!(node.tracked().is_empty());
    });
}

#[test]
fn a_guessed_reset_ends_nothing() {
    on_a_node(|node| {
        open(node);
        for guess in [0, 5000, 5002, 1_000_000] {
            let reset = tcp(SERVER, CLIENT).sequence(guess).flags(RST);
            assert_eq!(node.to(A, &reset), Passed, "the receiver challenges it");
            assert!(node.flow().is(flow_state::FLOW_ESTABLISHED), "{guess}");
        }
        assert_eq!(ends(node), []);
    });
}

#[test]
fn a_refused_connection_leaves_nothing() {
    on_a_node(|node| {
        node.between(A, B, &tcp(CLIENT, SERVER).syn(1000));
        let wrong = tcp(SERVER, CLIENT).ack(7).flags(RST);
        assert_eq!(node.between(B, A, &wrong), Dropped);
        let bare = tcp(SERVER, CLIENT).flags(RST);
        assert_eq!(node.between(B, A, &bare), Dropped);
        assert_eq!(node.pending().len(), 1);
        let refusal = tcp(SERVER, CLIENT).ack(1001).flags(RST);
        assert_eq!(node.between(B, A, &refusal), Passed);
        assert!(node.pending().is_empty());
        assert_eq!(ends(node), [], "it was never open");
    });
}

#[test]
fn a_reset_of_no_connection_is_judged_by_policy() {
    on_a_node(|node| {
        let reset = tcp(CLIENT, FAR).sequence(5).flags(RST);
        assert_eq!(node.from(A, &reset), Passed);
        assert!(node.pending().is_empty(), "and opens nothing");
        node.policy(A, crate::node::Egress, &[crate::node::deny(4)]);
        assert_eq!(node.from(A, &reset), Dropped);
        assert_eq!(node.events().pop().unwrap().rule, 4);
    });
}
