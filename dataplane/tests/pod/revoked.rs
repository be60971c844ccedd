//! A change of policy takes hold on living flows.

use crate::bytes::words;
use crate::node::{A, B, Dropped, Egress, Ingress, Node, Passed, allow, deny, on_a_node};
use crate::packet::{FIN, RST, tcp, udp};
use crate::skel::types::{event_type, flow_state, reason};
use libbpf_rs::{MapCore, MapFlags};

const CLIENT: &str = "10.1.0.1:40000";
const SERVER: &str = "10.1.0.2:80";

fn open(node: &Node) {
    node.between(A, B, &tcp(CLIENT, SERVER).syn(1000));
    node.between(B, A, &tcp(SERVER, CLIENT).syn(5000).ack(1001));
    node.between(A, B, &tcp(CLIENT, SERVER).sequence(1001).ack(5001));
    node.events();
}

#[test]
fn each_side_is_judged_again_for_itself() {
    on_a_node(|node| {
        open(node);
        node.epoch(2);
        let data = tcp(CLIENT, SERVER).sequence(1001).ack(5001);
        assert_eq!(node.from(A, &data), Passed);
        assert_eq!(node.flow().epoch, [2, 1]);
        assert_eq!(node.to(B, &data), Passed);
        assert_eq!(node.flow().epoch, [2, 2]);
        assert!(node.events().is_empty());
    });
}

#[test]
fn replies_bring_a_flow_before_the_judge_as_well() {
    on_a_node(|node| {
        open(node);
        node.policy(B, Ingress, &[deny(9)]);
        node.epoch(2);
        let answer = tcp(SERVER, CLIENT).sequence(5001).ack(1001);
        assert_eq!(node.from(B, &answer), Dropped);
        assert!(node.flow().is(flow_state::FLOW_REVOKED));
    });
}

#[test]
fn a_revoked_flow_is_closed_and_no_data_passes() {
    on_a_node(|node| {
        open(node);
        node.policy(A, Egress, &[deny(9)]);
        node.epoch(2);
        let data = tcp(CLIENT, SERVER).sequence(1001).ack(5001).data(b"x");
        assert_eq!(node.from(A, &data), Dropped);
        let flow = node.flow();
        assert!(flow.is(flow_state::FLOW_REVOKED));
        assert_eq!(flow.reason, reason::REASON_REVOKED.0);
        assert_eq!(node.closing(), [reason::REASON_REVOKED.0]);
        let events = node.events();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].kind, event_type::EVENT_CLOSE.0);
        assert_eq!(events[0].reason, reason::REASON_REVOKED.0);
        assert_eq!(events[0].rule, 9);
        assert_eq!(events[0].packets, [2, 1]);

        assert_eq!(node.from(A, &data), Dropped);
        let answer = tcp(SERVER, CLIENT).sequence(5001).ack(1001).data(b"x");
        assert_eq!(node.between(B, A, &answer), Dropped);
        let good_bye = tcp(SERVER, CLIENT).sequence(5001).ack(1001).flags(FIN);
        assert_eq!(node.between(B, A, &good_bye), Dropped);
        // An end asks whether a reset that does not fit was meant.
        let question = tcp(SERVER, CLIENT).sequence(5001).ack(1001);
        assert_eq!(node.between(B, A, &question), Passed);
        let reset = tcp(CLIENT, SERVER).sequence(1001).flags(RST);
        assert_eq!(node.between(A, B, &reset), Passed);
        let reset = tcp(SERVER, CLIENT).sequence(5001).flags(RST);
        assert_eq!(node.between(B, A, &reset), Passed);
        assert!(node.events().is_empty(), "it was told");
    });
}

#[test]
fn a_revoked_connection_can_be_opened_again_when_allowed() {
    on_a_node(|node| {
        open(node);
        node.policy(A, Egress, &[deny(9)]);
        node.epoch(2);
        let syn = tcp(CLIENT, SERVER).syn(9000);
        node.from(A, &tcp(CLIENT, SERVER).sequence(1001).ack(5001));
        assert_eq!(node.from(A, &syn), Dropped);
        node.policy(A, Egress, &[allow(10)]);
        node.epoch(3);
        assert_eq!(node.between(A, B, &syn), Passed);
        let answer = tcp(SERVER, CLIENT).syn(1).ack(9001);
        assert_eq!(node.between(B, A, &answer), Passed);
        assert!(node.flow().is(flow_state::FLOW_SYN_RECEIVED));
        assert_eq!(node.flow().rule, [10, 2]);
    });
}

#[test]
fn an_allowed_flow_is_not_touched() {
    on_a_node(|node| {
        open(node);
        node.policy(A, Egress, &[allow(44)]);
        node.epoch(2);
        let data = tcp(CLIENT, SERVER).sequence(1001).ack(5001);
        assert_eq!(node.between(A, B, &data), Passed);
        let flow = node.flow();
        assert!(flow.is(flow_state::FLOW_ESTABLISHED));
        assert_eq!(flow.rule, [44, 2]);
        assert_eq!(flow.packets, [3, 1]);
    });
}

#[test]
fn a_revoked_datagram_flow_is_forgotten() {
    on_a_node(|node| {
        let there = udp("10.1.0.1:5", "10.1.0.2:6", b"");
        node.between(A, B, &there);
        node.between(B, A, &udp("10.1.0.2:6", "10.1.0.1:5", b""));
        node.policy(B, Ingress, &[deny(9)]);
        node.epoch(2);
        assert_eq!(node.between(A, B, &there), Dropped);
        assert!(node.tracked().is_empty());
        assert_eq!(node.closing().len(), 1);
        assert_eq!(node.between(A, B, &there), Dropped);
        assert!(node.pending().is_empty());
    });
}

#[test]
fn a_flow_waits_for_room_among_those_to_close_and_passes_nothing() {
    on_a_node(|node| {
        open(node);
        let closing = node.map("closing_flows");
        for number in 0..closing.max_entries() {
            let mut key = words(&[number]);
            key.resize(40, 0);
            closing.update(&key, &words(&[0]), MapFlags::ANY).unwrap();
        }
        node.policy(A, Egress, &[deny(9)]);
        node.epoch(2);
        let data = tcp(CLIENT, SERVER).sequence(1001).ack(5001);
        assert_eq!(node.from(A, &data), Dropped);
        assert!(node.flow().is(flow_state::FLOW_ESTABLISHED));
        assert_eq!(node.sweep().unread, 1);
        let mut key = words(&[0]);
        key.resize(40, 0);
        closing.delete(&key).unwrap();
        assert_eq!(node.from(A, &data), Dropped);
        assert!(node.flow().is(flow_state::FLOW_REVOKED));
    });
}
