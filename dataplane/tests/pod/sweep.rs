//! The sweep: ages, and policy for flows that no packet brings before the judge.

use std::mem::offset_of;

use libbpf_rs::{MapCore, MapFlags};

use crate::bytes::{Swept, words};
use crate::node::{A, B, Dropped, Egress, Ingress, Node, Passed, allow, deny, on_a_node};
use crate::packet::{FIN, RST, tcp, udp};
use crate::skel::types::{event_type, flow, flow_end, flow_flags, flow_state, reason};

const CLIENT: &str = "10.1.0.1:40000";
const SERVER: &str = "10.1.0.2:80";
const SECOND: u64 = 1_000_000_000;

/// Seconds in the order of `struct ct_settings`.
const TCP_NEW: u32 = 10;
const TCP_ESTABLISHED: u32 = 1000;
const TCP_CLOSING: u32 = 100;
const TCP_CLOSED: u32 = 5;
const UDP_NEW: u32 = 20;
const UDP_ESTABLISHED: u32 = 200;
const OTHER: u32 = 30;

fn aged(test: impl FnOnce(&Node) + Send) {
    on_a_node(|node| {
        let settings = words(&[
            TCP_NEW,
            TCP_ESTABLISHED,
            TCP_CLOSING,
            TCP_CLOSED,
            UDP_NEW,
            UDP_ESTABLISHED,
            OTHER,
            0,
        ]);
        let map = node.map("ct_settings");
        map.update(&words(&[0]), &settings, MapFlags::ANY).unwrap();
        test(node);
    });
}

fn open(node: &Node) {
    node.between(A, B, &tcp(CLIENT, SERVER).syn(1000));
    node.between(B, A, &tcp(SERVER, CLIENT).syn(5000).ack(1001));
    node.between(A, B, &tcp(CLIENT, SERVER).sequence(1001).ack(5001));
    assert!(node.flow().is(flow_state::FLOW_ESTABLISHED));
    node.events();
}

fn talk(node: &Node) {
    node.between(A, B, &udp("10.1.0.1:5", "10.1.0.2:6", b""));
    node.between(B, A, &udp("10.1.0.2:6", "10.1.0.1:5", b""));
    node.events();
}

/// Moves a time of all flows into the past.
fn earlier(node: &Node, map: &str, at: usize, seconds: u32) {
    node.change_flows(map, |value| {
        let then = u64::from_ne_bytes(value[at..at + 8].try_into().unwrap());
        // Before the machine was started, on one that has just been.
        let before = then.wrapping_sub(u64::from(seconds) * SECOND);
        value[at..at + 8].copy_from_slice(&before.to_ne_bytes());
    });
}

fn silent_for(node: &Node, map: &str, seconds: u32) {
    earlier(node, map, offset_of!(flow, last_ns), seconds);
}

fn set(node: &Node, at: usize, value: u32) {
    node.change_flows("ct", |flow| {
        flow[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    });
}

fn told(node: &Node) -> Vec<(event_type, reason)> {
    let events = node.events();
    events
        .iter()
        .map(|event| (event_type(event.kind), reason(event.reason)))
        .collect()
}

#[test]
fn young_flows_stay() {
    aged(|node| {
        open(node);
        node.from(A, &udp("10.1.0.1:1", "10.2.0.9:2", b""));
        silent_for(node, "ct", TCP_ESTABLISHED - 1);
        silent_for(node, "ct_pending", UDP_NEW - 1);
        let swept = Swept {
            swept: 2,
            expired: 0,
            revoked: 0,
            unread: 0,
            due: Some(1),
        };
        assert_eq!(node.sweep(), swept);
        assert_eq!((node.tracked().len(), node.pending().len()), (1, 1));
    });
}

#[test]
fn the_next_that_is_due_is_known() {
    aged(|node| {
        assert_eq!(node.sweep().due, None);
        open(node);
        silent_for(node, "ct", 50);
        assert_eq!(node.sweep().due, Some(u64::from(TCP_ESTABLISHED) - 50));
        // What only one of them has.
        node.from(A, &udp("10.1.0.1:1", "10.2.0.9:2", b""));
        silent_for(node, "ct_pending", 5);
        assert_eq!(node.sweep().due, Some(u64::from(UDP_NEW) - 5));
    });
}

#[test]
fn a_lifetime_may_be_over_before_silence() {
    aged(|node| {
        open(node);
        set(node, offset_of!(flow, lifetime_s), 70);
        node.change_flows("ct", |flow| {
            flow[offset_of!(flow, flags)] |= flow_flags::FLOW_HAS_LIFETIME.0 as u8;
        });
        assert_eq!(node.sweep().due, Some(70));
    });
}

#[test]
fn without_settings_nothing_ages() {
    on_a_node(|node| {
        open(node);
        silent_for(node, "ct", TCP_ESTABLISHED);
        let swept = node.sweep();
        assert_eq!((swept.expired, swept.due), (0, None));
    });
}

#[test]
fn an_idle_connection_is_closed_and_told() {
    aged(|node| {
        open(node);
        silent_for(node, "ct", TCP_ESTABLISHED + 1);
        assert_eq!(node.sweep().expired, 1);
        let flow = node.flow();
        assert!(flow.is(flow_state::FLOW_REVOKED));
        assert_eq!(flow.reason, reason::REASON_IDLE.0);
        assert_eq!(node.closing(), [reason::REASON_IDLE.0]);
        assert_eq!(
            told(node),
            [(event_type::EVENT_EXPIRED, reason::REASON_IDLE)]
        );
        let reset = tcp(CLIENT, SERVER).sequence(1001).flags(RST);
        assert_eq!(node.between(A, B, &reset), Passed);
        let data = tcp(CLIENT, SERVER).sequence(1001).ack(5001).data(b"x");
        assert_eq!(node.from(A, &data), Dropped);
        silent_for(node, "ct", TCP_CLOSED + 1);
        assert_eq!(node.sweep().expired, 1);
        assert!(node.tracked().is_empty());
        assert!(told(node).is_empty());
    });
}

#[test]
fn a_traffic_policys_times_come_first() {
    aged(|node| {
        open(node);
        set(node, offset_of!(flow, idle_s), 50);
        silent_for(node, "ct", 51);
        assert_eq!(node.sweep().expired, 1);
        assert_eq!(
            told(node),
            [(event_type::EVENT_EXPIRED, reason::REASON_IDLE)]
        );
    });
    aged(|node| {
        open(node);
        set(node, offset_of!(flow, lifetime_s), 60);
        node.change_flows("ct", |value| {
            value[offset_of!(flow, flags)] |= flow_flags::FLOW_HAS_LIFETIME.0 as u8;
        });
        earlier(node, "ct", offset_of!(flow, first_ns), 61);
        assert_eq!(node.sweep().expired, 1);
        assert_eq!(node.closing(), [reason::REASON_MAX_DURATION.0]);
        assert_eq!(
            told(node),
            [(event_type::EVENT_EXPIRED, reason::REASON_MAX_DURATION)]
        );
    });
}

#[test]
fn half_closed_and_closed_connections_have_their_own_times() {
    aged(|node| {
        open(node);
        let fin = tcp(CLIENT, SERVER).sequence(1001).ack(5001).flags(FIN);
        node.between(A, B, &fin);
        silent_for(node, "ct", TCP_CLOSING - 1);
        assert_eq!(node.sweep().expired, 0);
        let answer = tcp(SERVER, CLIENT).sequence(5001).ack(1002).flags(FIN);
        node.between(B, A, &answer);
        assert_eq!(told(node), [(event_type::EVENT_CLOSE, reason::REASON_FIN)]);
        silent_for(node, "ct", TCP_CLOSED + 1);
        assert_eq!(node.sweep().expired, 1);
        assert!(node.tracked().is_empty());
        assert!(told(node).is_empty(), "its end was told");
        assert!(node.closing().is_empty());
    });
}

#[test]
fn what_nobody_answered_is_told() {
    aged(|node| {
        node.from(A, &tcp(CLIENT, "10.2.0.9:80").syn(1));
        silent_for(node, "ct_pending", TCP_NEW + 1);
        assert_eq!(node.sweep().expired, 1);
        assert!(node.pending().is_empty());
        let no_reply = (event_type::EVENT_EXPIRED, reason::REASON_NO_REPLY);
        assert_eq!(told(node), [no_reply]);
        assert!(node.closing().is_empty());
    });
    aged(|node| {
        // Answered, and then no more.
        node.from(A, &tcp(CLIENT, "10.2.0.9:80").syn(1));
        node.to(A, &tcp("10.2.0.9:80", CLIENT).syn(9).ack(2));
        silent_for(node, "ct", TCP_NEW + 1);
        assert_eq!(node.sweep().expired, 1);
        assert!(node.tracked().is_empty());
        let no_reply = (event_type::EVENT_EXPIRED, reason::REASON_NO_REPLY);
        assert_eq!(told(node), [no_reply]);
    });
}

#[test]
fn an_idle_datagram_flow_is_forgotten_and_its_sockets_stay() {
    aged(|node| {
        talk(node);
        silent_for(node, "ct", UDP_ESTABLISHED + 1);
        assert_eq!(node.sweep().expired, 1);
        assert!(node.tracked().is_empty());
        assert!(node.closing().is_empty());
        assert_eq!(
            told(node),
            [(event_type::EVENT_EXPIRED, reason::REASON_IDLE)]
        );
    });
    aged(|node| {
        talk(node);
        set(node, offset_of!(flow, idle_s), 50);
        silent_for(node, "ct", 51);
        node.sweep();
        assert_eq!(node.closing(), [reason::REASON_IDLE.0], "asked for");
        assert!(node.tracked().is_empty());
    });
}

#[test]
fn idle_flows_are_judged_after_a_change() {
    aged(|node| {
        open(node);
        talk(node);
        node.policy(B, Ingress, &[deny(9), allow(10).from(1 << 16)]);
        node.epoch(2);
        let swept = node.sweep();
        assert_eq!((swept.swept, swept.revoked), (2, 1));
        let flows = node.tracked();
        let count = |state: flow_state| flows.iter().filter(|f| f.is(state)).count();
        assert_eq!(count(flow_state::FLOW_REVOKED), 1);
        assert_eq!(count(flow_state::FLOW_ESTABLISHED), 1);
        let udp = flows.iter().find(|f| f.is(flow_state::FLOW_ESTABLISHED));
        let udp = udp.unwrap();
        assert_eq!((udp.epoch, udp.rule), ([2, 2], [1, 10]));
        let events = node.events();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].kind, event_type::EVENT_CLOSE.0);
        assert_eq!((events[0].rule, events[0].protocol), (9, 6));
        assert_eq!(node.sweep().revoked, 0, "once");
    });
}

#[test]
fn a_pod_that_is_not_ready_loses_no_flows() {
    aged(|node| {
        open(node);
        node.forget_policy(A);
        node.epoch(2);
        let swept = node.sweep();
        assert_eq!((swept.revoked, swept.due), (0, Some(0)));
        assert_eq!(node.flow().epoch, [1, 2]);
        node.policy(A, Egress, &[allow(4)]);
        assert_eq!(node.sweep().revoked, 0);
        assert_eq!(node.flow().epoch, [2, 2]);
    });
}

#[test]
fn flows_of_a_pod_that_is_gone_go_too() {
    aged(|node| {
        open(node);
        node.map("identities")
            .delete(&crate::bytes::mapped(B.address))
            .unwrap();
        node.epoch(2);
        assert_eq!(node.sweep().expired, 1);
        assert!(node.tracked().is_empty());
        assert_eq!(
            told(node),
            [(event_type::EVENT_CLOSE, reason::REASON_BACKEND_GONE)]
        );
    });
}

#[test]
fn what_connect_has_announced_and_nobody_sent_is_dropped_silently() {
    aged(|node| {
        node.from(A, &tcp(CLIENT, "10.2.0.9:80").syn(1));
        node.change_flows("ct_pending", |value| {
            for end in [offset_of!(flow, end_0), offset_of!(flow, end_1)] {
                value[end..end + size_of::<flow_end>()].fill(0);
            }
        });
        silent_for(node, "ct_pending", TCP_NEW + 1);
        assert_eq!(node.sweep().expired, 1);
        assert!(told(node).is_empty());
    });
}
