//! What is told of a connection's life.

use crate::bytes::mapped;
use crate::node::{A, B, Egress, deny, on_a_node, on_a_node_with};
use crate::packet::{FIN, SYN, tcp, udp};
use crate::skel::types::{counter, direction, event_type, reason, verdict};

const CLIENT: &str = "10.1.0.1:40000";
const SERVER: &str = "10.1.0.2:80";

#[test]
fn a_connection_is_told_when_it_opens_and_when_it_closes() {
    on_a_node(|node| {
        node.between(A, B, &tcp(CLIENT, SERVER).syn(1000));
        node.between(B, A, &tcp(SERVER, CLIENT).syn(5000).ack(1001));
        assert!(node.events().is_empty(), "not open yet");
        let ack = tcp(CLIENT, SERVER).sequence(1001).ack(5001);
        node.between(A, B, &ack);
        node.between(A, B, &ack);
        let opened = node.events();
        assert_eq!(opened.len(), 1, "{opened:?}");
        let event = &opened[0];
        assert_eq!(event.kind, event_type::EVENT_OPEN.0);
        assert_eq!(event.verdict, verdict::VERDICT_ALLOW.0);
        assert_eq!(event.reason, reason::REASON_POLICY.0);
        assert_eq!(event.direction, direction::DIRECTION_EGRESS.0);
        assert_eq!(event.source, mapped("10.1.0.1"));
        assert_eq!(event.destination, mapped("10.1.0.2"));
        assert_eq!((event.source_port, event.destination_port), (40000, 80));
        assert_eq!((event.protocol, event.rule), (6, 1));
        assert_eq!(event.identities, [A.identity, B.identity]);
        assert_eq!(event.interface, A.interface);

        node.between(
            B,
            A,
            &tcp(SERVER, CLIENT)
                .sequence(5001)
                .ack(1001)
                .data(b"bye")
                .flags(FIN),
        );
        node.between(
            A,
            B,
            &tcp(CLIENT, SERVER).sequence(1001).ack(5005).flags(FIN),
        );
        let closed = node.events();
        assert_eq!(closed.len(), 1, "{closed:?}");
        assert_eq!(closed[0].kind, event_type::EVENT_CLOSE.0);
        assert_eq!(closed[0].reason, reason::REASON_FIN.0);
        assert_eq!(closed[0].packets, [4, 2], "by opener, by the other end");
        assert_eq!(closed[0].bytes, [160, 83]);
    });
}

#[test]
fn what_others_open_is_told_as_ingress() {
    on_a_node(|node| {
        node.to(A, &udp("10.2.0.9:7", "10.1.0.1:9", b""));
        node.from(A, &udp("10.1.0.1:9", "10.2.0.9:7", b""));
        let event = node.events().pop().unwrap();
        assert_eq!(event.kind, event_type::EVENT_OPEN.0);
        assert_eq!(event.direction, direction::DIRECTION_INGRESS.0);
        assert_eq!(event.source, mapped("10.2.0.9"));
        assert_eq!((event.rule, event.interface), (2, A.interface));
    });
}

#[test]
fn a_refused_packet_is_told_with_its_flags() {
    on_a_node(|node| {
        node.policy(A, Egress, &[deny(6)]);
        node.from(A, &tcp(CLIENT, SERVER).syn(1));
        let event = node.events().pop().unwrap();
        assert_eq!(event.kind, event_type::EVENT_DENIED.0);
        assert_eq!(event.verdict, verdict::VERDICT_DENY.0);
        assert_eq!(event.direction, direction::DIRECTION_EGRESS.0);
        assert_eq!((event.rule, event.tcp_flags), (6, SYN));
        assert_eq!(event.source, mapped("10.1.0.1"));
        assert_eq!(node.counter(counter::COUNTER_PACKETS_REFUSED), 1);
    });
}

#[test]
fn an_event_without_room_is_counted() {
    const RING: u32 = 4096;
    const ROOM: u64 = RING as u64 / (144 + 8);
    let small = |open: &mut crate::skel::OpenWeftSkel<'static>| {
        open.maps.events.set_max_entries(RING).unwrap();
    };
    on_a_node_with(small, |node| {
        node.policy(A, Egress, &[deny(6)]);
        for _ in 0..2 * ROOM {
            node.from(A, &tcp(CLIENT, SERVER).syn(1));
        }
        let told = node.events().len() as u64;
        assert!(told > 0 && told <= ROOM, "{told}");
        let lost = node.counter(counter::COUNTER_EVENTS_LOST);
        assert_eq!(told + lost, 2 * ROOM);
    });
}
