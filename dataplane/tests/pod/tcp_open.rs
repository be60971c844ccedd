//! TCP from the SYN to the first data.

use crate::node::{A, B, Dropped, Node, Passed, REMOTE, on_a_node, on_a_node_with};
use crate::packet::{ACK, FIN, PSH, Packet, RST, SYN, tcp};
use crate::skel::types::{counter, flow_flags, flow_state, reason};

const CLIENT: &str = "10.1.0.1:40000";
const SERVER: &str = "10.1.0.2:80";
const CLIENT6: &str = "[fd00:1::1]:40000";
const SERVER6: &str = "[fd00:1::2]:80";
const FAR: &str = "10.2.0.9:80";

fn handshake(node: &Node, client: &str, server: &str) {
    assert_eq!(node.between(A, B, &tcp(client, server).syn(1000)), Passed);
    assert_eq!(
        node.between(B, A, &tcp(server, client).syn(5000).ack(1001)),
        Passed
    );
    assert_eq!(
        node.between(A, B, &tcp(client, server).sequence(1001).ack(5001)),
        Passed
    );
}

fn last_reason(node: &Node) -> reason {
    reason(node.events().last().expect("an event").reason)
}

#[test]
fn a_handshake_moves_from_pending_to_tracked() {
    for (client, server) in [(CLIENT, SERVER), (CLIENT6, SERVER6)] {
        on_a_node(|node| {
            node.between(A, B, &tcp(client, server).syn(1000));
            assert!(node.tracked().is_empty());
            assert!(node.pending()[0].is(flow_state::FLOW_NEW));
            node.between(B, A, &tcp(server, client).syn(5000).ack(1001));
            assert!(node.pending().is_empty());
            assert!(node.flow().is(flow_state::FLOW_SYN_RECEIVED));
            node.between(A, B, &tcp(client, server).sequence(1001).ack(5001));
            let flow = node.flow();
            assert!(flow.is(flow_state::FLOW_ESTABLISHED));
            assert_eq!(flow.epoch, [1, 1], "both sides are judged");
            assert_eq!(flow.rule, [1, 2], "egress and ingress");
            assert_eq!(flow.interface, [A.interface, B.interface]);
            assert_eq!(flow.identity, [A.identity, B.identity]);
            assert_eq!(flow.packets, [2, 1], "each packet is counted once");
            assert_eq!(flow.retransmits, 0);
        });
    }
}

#[test]
fn a_remote_end_is_judged_on_its_own_node_only() {
    on_a_node(|node| {
        assert_eq!(node.from(A, &tcp(CLIENT, FAR).syn(1)), Passed);
        assert_eq!(node.to(A, &tcp(FAR, CLIENT).syn(9).ack(2)), Passed);
        assert_eq!(node.from(A, &tcp(CLIENT, FAR).sequence(2).ack(10)), Passed);
        let flow = node.flow();
        assert_eq!(flow.epoch, [1, 0]);
        assert_eq!(flow.packets, [2, 1]);
        assert_eq!(flow.interface, [A.interface, 0]);
    });
}

#[test]
fn data_takes_the_short_way_and_is_counted() {
    on_a_node(|node| {
        handshake(node, CLIENT, SERVER);
        let data = tcp(CLIENT, SERVER)
            .sequence(1001)
            .ack(5001)
            .flags(PSH)
            .data(b"GET /");
        assert_eq!(node.between(A, B, &data), Passed);
        let bare = tcp(CLIENT, SERVER);
        assert_eq!(node.flow().bytes[0], 2 * bare.len() + data.len());
        assert_eq!(node.flow().packets, [3, 1]);
    });
}

#[test]
fn a_syn_ack_has_to_acknowledge_the_syn() {
    on_a_node(|node| {
        assert_eq!(
            node.to(A, &tcp(FAR, CLIENT).syn(9).ack(1)),
            Dropped,
            "no SYN at all"
        );
        assert_eq!(last_reason(node), reason::REASON_TCP_HANDSHAKE);
        node.from(A, &tcp(CLIENT, FAR).syn(1000));
        for wrong in [1000, 1002, 0] {
            assert_eq!(node.to(A, &tcp(FAR, CLIENT).syn(9).ack(wrong)), Dropped);
            assert_eq!(last_reason(node), reason::REASON_TCP_HANDSHAKE);
        }
        assert!(node.tracked().is_empty());
        assert_eq!(node.to(A, &tcp(FAR, CLIENT).syn(9).ack(1001)), Passed);
    });
}

#[test]
fn a_fast_open_syn_may_be_acknowledged_with_its_data() {
    for acknowledged in [1001, 1006] {
        on_a_node(|node| {
            node.from(A, &tcp(CLIENT, FAR).syn(1000).data(b"hello"));
            let answer = tcp(FAR, CLIENT).syn(9).ack(acknowledged);
            assert_eq!(node.to(A, &answer), Passed);
        });
    }
}

#[test]
fn nothing_but_the_handshake_follows_a_syn() {
    on_a_node(|node| {
        node.from(A, &tcp(CLIENT, FAR).syn(1000));
        let early = tcp(CLIENT, FAR).sequence(1001).ack(1);
        assert_eq!(node.from(A, &early), Dropped);
        assert_eq!(last_reason(node), reason::REASON_TCP_HANDSHAKE);
        let fin = tcp(FAR, CLIENT).sequence(9).ack(1001).flags(FIN);
        assert_eq!(node.to(A, &fin), Dropped);
        // The server has an earlier connection here, and challenges it.
        let challenge = tcp(FAR, CLIENT).sequence(777).ack(888);
        assert_eq!(node.to(A, &challenge), Passed);
        assert!(node.tracked().is_empty());
        assert_eq!(
            node.from(A, &tcp(CLIENT, FAR).sequence(888).flags(RST)),
            Passed
        );
        assert_eq!(node.pending().len(), 1, "the SYN stands");
    });
}

#[test]
fn the_last_ack_belongs_to_the_handshake() {
    on_a_node(|node| {
        node.from(A, &tcp(CLIENT, FAR).syn(1000));
        node.to(A, &tcp(FAR, CLIENT).syn(9).ack(1001));
        let stray = tcp(CLIENT, FAR).sequence(900).ack(10);
        assert_eq!(node.from(A, &stray), Dropped);
        assert_eq!(last_reason(node), reason::REASON_TCP_HANDSHAKE);
        assert!(node.flow().is(flow_state::FLOW_SYN_RECEIVED));
    });
}

#[test]
fn what_is_sent_again_is_counted_as_such() {
    on_a_node(|node| {
        let syn = tcp(CLIENT, FAR).syn(1000);
        node.from(A, &syn);
        node.from(A, &syn);
        assert_eq!(node.pending()[0].retransmits, 1);
        let answer = tcp(FAR, CLIENT).syn(9).ack(1001);
        node.to(A, &answer);
        node.to(A, &answer);
        assert_eq!(node.flow().retransmits, 2);
        node.from(A, &syn);
        assert_eq!(node.flow().retransmits, 3);
        assert!(node.pending().is_empty());
    });
}

#[test]
fn another_syn_from_the_same_port_begins_again() {
    on_a_node(|node| {
        node.from(A, &tcp(CLIENT, FAR).syn(1000));
        assert_eq!(node.from(A, &tcp(CLIENT, FAR).syn(7000)), Passed);
        assert_eq!(node.to(A, &tcp(FAR, CLIENT).syn(9).ack(1001)), Dropped);
        assert_eq!(node.to(A, &tcp(FAR, CLIENT).syn(9).ack(7001)), Passed);
    });
}

#[test]
fn flags_that_no_tcp_sends_are_refused() {
    for flags in [
        0,
        PSH,
        FIN,
        SYN | FIN,
        SYN | RST,
        FIN | RST,
        SYN | FIN | RST | ACK,
        SYN | ACK | FIN,
        SYN | ACK | RST,
        0xff,
    ] {
        on_a_node(|node| {
            handshake(node, CLIENT, SERVER);
            node.events();
            for packet in [tcp(CLIENT, SERVER), tcp("10.1.0.1:41000", SERVER)] {
                let packet: Packet = packet.flags(flags);
                assert_eq!(node.from(A, &packet), Dropped, "{flags:#x}");
                assert_eq!(last_reason(node), reason::REASON_TCP_FLAGS);
            }
            assert!(node.flow().is(flow_state::FLOW_ESTABLISHED));
        });
    }
}

#[test]
fn a_connection_older_than_the_programs_is_picked_up() {
    on_a_node(|node| {
        let data = tcp(CLIENT, FAR).sequence(50).ack(70).data(b"x");
        assert_eq!(node.from(A, &data), Passed);
        assert!(node.tracked().is_empty(), "a flood of ACKs fills no table");
        let answer = tcp(FAR, CLIENT).sequence(70).ack(51);
        assert_eq!(node.to(A, &answer), Passed);
        let flow = node.flow();
        assert!(flow.is(flow_state::FLOW_ESTABLISHED));
        assert_ne!(flow.flags & flow_flags::FLOW_PICKED_UP.0, 0);
    });
}

#[test]
fn a_full_table_refuses_and_says_so() {
    let small = |open: &mut crate::skel::OpenWeftSkel<'static>| {
        open.maps.ct.set_max_entries(1).unwrap();
    };
    on_a_node_with(small, |node| {
        handshake(node, CLIENT, SERVER);
        node.events();
        let client = "10.1.0.1:40001";
        assert_eq!(node.between(A, B, &tcp(client, SERVER).syn(1)), Passed);
        let answer = tcp(SERVER, client).syn(2).ack(2);
        assert_eq!(node.between(B, A, &answer), Dropped);
        assert_eq!(last_reason(node), reason::REASON_CONNTRACK_FULL);
        assert_eq!(node.counter(counter::COUNTER_CONNTRACK_FULL), 1);
        assert!(node.flow().is(flow_state::FLOW_ESTABLISHED));
    });
}

#[test]
fn a_flood_of_syns_evicts_no_connection() {
    on_a_node(|node| {
        handshake(node, CLIENT, SERVER);
        for number in 0..20_000u32 {
            let source = format!("{REMOTE}:{}", 1024 + number % 60_000);
            let syn = tcp(&source, &format!("10.1.0.2:{}", 1 + number / 60_000)).syn(number);
            assert_eq!(node.to(B, &syn), Passed);
        }
        assert!(node.flow().is(flow_state::FLOW_ESTABLISHED));
        assert!(node.pending().len() <= 4096);
        let data = tcp(CLIENT, SERVER).sequence(1001).ack(5001);
        assert_eq!(node.between(A, B, &data), Passed);
    });
}
