//! What comes to a pod whose policy leaves it to Envoy.

use std::mem::offset_of;

use libbpf_rs::{MapCore, MapFlags};

use crate::bytes::words;
use crate::node::{
    A, B, Dropped, Egress, Ingress, Node, Passed, allow, ask_envoy, deny, on_a_node,
};
use crate::packet::{Packet, tcp};
use crate::proxy::{BY_PROXY, REDIRECT, SHOT, TO_PROXY, last_reason, run};
use crate::skel::types;

const CLIENT: &str = "10.1.0.1:40000";
const SERVER: &str = "10.1.0.2:80";
const FAR_CLIENT: &str = "10.2.0.9:40000";
/// `TC_ACT_UNSPEC`
const NEXT: u32 = u32::MAX;
const ADMITTED: u32 = 0x5eed_0002;

fn envoy(node: &Node, ready: u32, steering: u32) {
    let state = node.map("proxy_state");
    state
        .update(&words(&[0]), &words(&[ready, steering]), MapFlags::ANY)
        .unwrap();
}

const INBOUND: u32 = types::steering::STEER_INBOUND.0;

fn syn(source: &str) -> Packet {
    tcp(source, SERVER).syn(1)
}

#[test]
fn nobody_comes_past_envoy() {
    on_a_node(|node| {
        node.policy(B, Ingress, &[ask_envoy(9)]);
        assert_eq!(node.to(B, &syn(FAR_CLIENT)), Dropped);
        assert_eq!(last_reason(node), types::reason::REASON_LAYER7);
        assert_eq!(node.between(A, B, &syn(CLIENT)), Dropped);
        assert_eq!(last_reason(node), types::reason::REASON_LAYER7);
        assert_eq!(node.to(B, &syn("10.1.0.254:40000")), Dropped, "the node");
        assert_eq!(last_reason(node), types::reason::REASON_LAYER7);
        // Envoy for a service of layer 7 has not asked this pod's policy, and of this client it is not known where it is.
        assert_eq!(
            run(&node.programs().weft_to_pod, B, &syn(FAR_CLIENT), BY_PROXY).0,
            SHOT
        );
        // The middle of a connection that nobody knows.
        let data = tcp(FAR_CLIENT, SERVER).sequence(5).ack(7).data(b"GET /");
        assert_eq!(node.to(B, &data), Dropped);
    });
}

#[test]
fn while_envoy_is_down_that_is_the_reason() {
    on_a_node(|node| {
        node.policy(B, Ingress, &[ask_envoy(9)]);
        envoy(node, 0, INBOUND);
        assert_eq!(node.to(B, &syn(FAR_CLIENT)), Dropped);
        assert_eq!(last_reason(node), types::reason::REASON_PROXY_DOWN);
        // Said to be ready, but nobody listens in this network namespace.
        envoy(node, 1, INBOUND);
        assert_eq!(node.from(A, &syn(CLIENT)), Dropped);
        assert_eq!(last_reason(node), types::reason::REASON_PROXY_DOWN);
    });
}

#[test]
fn who_is_allowed_or_refused_without_envoy_stays_in_the_kernel() {
    on_a_node(|node| {
        envoy(node, 1, INBOUND);
        node.policy(B, Ingress, &[ask_envoy(9), allow(10).from(81)]);
        assert_eq!(
            node.between(A, B, &tcp(CLIENT, "10.1.0.2:81").syn(1)),
            Passed
        );
        node.peer(B, Ingress, A.identity, &[allow(11)]);
        assert_eq!(node.between(A, B, &syn(CLIENT)), Passed);
        node.policy(B, Ingress, &[ask_envoy(9)]);
        node.peer(B, Ingress, A.identity, &[deny(12)]);
        assert_eq!(node.between(A, B, &syn("10.1.0.1:40001")), Dropped);
        assert_eq!(last_reason(node), types::reason::REASON_POLICY);
        // Egress comes first.
        node.policy(B, Ingress, &[ask_envoy(9)]);
        node.policy(A, Egress, &[deny(13)]);
        assert_eq!(node.from(A, &syn("10.1.0.1:40002")), Dropped);
        assert_eq!(last_reason(node), types::reason::REASON_POLICY);
    });
}

/// Of a client of another node: nobody announces it.
#[test]
fn what_envoy_has_admitted_reaches_the_pod_and_its_answer_envoy() {
    on_a_node(|node| {
        envoy(node, 1, INBOUND);
        node.policy(B, Ingress, &[ask_envoy(9)]);
        let (to_pod, from_pod) = (&node.programs().weft_to_pod, &node.programs().weft_from_pod);
        assert_eq!(run(to_pod, B, &syn(FAR_CLIENT), ADMITTED), (NEXT, ADMITTED));
        let answer = tcp(SERVER, FAR_CLIENT).syn(9).ack(2);
        assert_eq!(run(from_pod, B, &answer, 0), (NEXT, TO_PROXY));
        let data = tcp(FAR_CLIENT, SERVER).sequence(2).ack(10).data(b"GET /");
        assert_eq!(run(to_pod, B, &data, ADMITTED).0, NEXT);
        // The next packets of a connection that was let in are judged again as policies change.
        node.epoch(2);
        assert_eq!(
            run(to_pod, B, &data, ADMITTED).0,
            NEXT,
            "still Envoy's to say"
        );
        assert_eq!(node.sweep().revoked, 0);
        node.policy(B, Ingress, &[deny(14)]);
        node.epoch(3);
        assert_eq!(node.sweep().revoked, 1);
    });
}

#[test]
fn a_connection_that_was_direct_ends_when_envoy_has_to_be_asked() {
    on_a_node(|node| {
        assert_eq!(node.between(A, B, &syn(CLIENT)), Passed);
        assert_eq!(
            node.between(B, A, &tcp(SERVER, CLIENT).syn(9).ack(2)),
            Passed
        );
        let data = tcp(CLIENT, SERVER).sequence(2).ack(10).data(b"GET /");
        assert_eq!(node.between(A, B, &data), Passed);
        envoy(node, 1, INBOUND);
        node.policy(B, Ingress, &[ask_envoy(9)]);
        node.epoch(2);
        assert_eq!(node.between(A, B, &data), Dropped);
        assert_eq!(node.closing().len(), 1);
    });
}

/// A mark is nothing that a pod could send: what comes out of one has none. With Envoy's own it would be taken for what was turned back.
#[test]
fn a_pod_does_not_pass_for_envoy() {
    on_a_node(|node| {
        envoy(node, 1, INBOUND);
        node.policy(B, Ingress, &[ask_envoy(9)]);
        let (to_pod, from_pod) = (&node.programs().weft_to_pod, &node.programs().weft_from_pod);
        // In the name of somebody else, or of the node.
        for source in [FAR_CLIENT, "10.1.0.254:40000"] {
            assert_eq!(node.from(A, &syn(source)), Dropped);
            assert_eq!(last_reason(node), types::reason::REASON_SPOOFED);
        }
        // Into a connection that Envoy has opened in its name.
        assert_eq!(run(to_pod, B, &syn(CLIENT), ADMITTED).0, NEXT);
        let answer = tcp(SERVER, CLIENT).syn(9).ack(2);
        assert_eq!(run(from_pod, B, &answer, 0), (NEXT, TO_PROXY));
        let forged = tcp(CLIENT, SERVER).sequence(2).ack(10).data(b"POST /");
        assert_eq!(node.from(A, &forged), Dropped);
        assert_eq!(last_reason(node), types::reason::REASON_SPOOFED);
    });
}

/// Envoy of a client of this node, for a service of layer 7.
#[test]
fn what_envoy_asks_in_a_clients_name_goes_to_envoy_again() {
    on_a_node(|node| {
        // As sockops announces it.
        assert_eq!(node.from(A, &syn(CLIENT)), Passed);
        let place = offset_of!(types::flow, proxy);
        let upstream = types::flow_proxy::PROXY_UPSTREAM_0.0 as u8;
        node.change_flows("ct_pending", |flow| flow[place] = upstream);
        envoy(node, 1, INBOUND);
        node.policy(B, Ingress, &[ask_envoy(9)]);
        let to_pod = &node.programs().weft_to_pod;
        assert_eq!(run(to_pod, B, &syn(CLIENT), BY_PROXY), (REDIRECT, TO_PROXY));
        // The answer is Envoy's, and for Envoy.
        let answer = tcp(SERVER, CLIENT).syn(9).ack(2);
        assert_eq!(run(to_pod, A, &answer, 0), (REDIRECT, TO_PROXY));
        let data = tcp(CLIENT, SERVER).sequence(2).ack(10).data(b"GET /");
        assert_eq!(run(to_pod, B, &data, BY_PROXY), (REDIRECT, TO_PROXY));
        // Neither pod has a part in it.
        assert_eq!(node.from(A, &data), Dropped);
        let forged = tcp(SERVER, CLIENT)
            .sequence(10)
            .ack(2)
            .data(b"HTTP/1.1 200");
        assert_eq!(node.from(B, &forged), Dropped);
        assert_eq!(last_reason(node), types::reason::REASON_SPOOFED);
    });
}

#[test]
fn the_nodes_own_processes_are_turned_to_envoy() {
    on_a_node(|node| {
        let to_pod = &node.programs().weft_to_pod;
        let own = syn("10.1.0.254:40000");
        node.policy(B, Ingress, &[ask_envoy(9), deny(10).from(81)]);
        envoy(node, 1, INBOUND);
        assert_eq!(run(to_pod, B, &own, 0), (REDIRECT, TO_PROXY));
        // Whatever else policies say, a node reaches its pods.
        let other = tcp("10.1.0.254:40000", "10.1.0.2:81").syn(1);
        assert_eq!(run(to_pod, B, &other, 0), (NEXT, 0));
        // What Envoy sends on for it, and a copy of a request, which nobody has asked about.
        assert_eq!(run(to_pod, B, &own, ADMITTED).0, NEXT);
        let copy = syn("10.1.0.254:40001");
        assert_eq!(run(to_pod, B, &copy, BY_PROXY).0, SHOT);
    });
}

#[test]
fn an_uplink_takes_nothing_while_nobody_listens() {
    on_a_node(|node| {
        node.policy(B, Ingress, &[ask_envoy(9)]);
        let uplink = &node.programs().weft_from_uplink;
        for (ready, steering) in [(0, 0), (1, 0), (0, INBOUND), (1, INBOUND)] {
            envoy(node, ready, steering);
            let seen = run(uplink, B, &syn(FAR_CLIENT), 0);
            assert_eq!(seen, (NEXT, 0), "it is refused at the pod");
        }
    });
}
