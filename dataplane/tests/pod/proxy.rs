//! What goes to Envoy and what Envoy sends.

use std::mem::offset_of;

use libbpf_rs::{MapCore, MapFlags, ProgramInput, ProgramMut};

use crate::bytes::{mapped, words};
use crate::node::{A, B, Dropped, Egress, Ingress, Node, Passed, Pod, context, deny, on_a_node};
use crate::packet::{Packet, tcp};
use crate::skel::types;

const CLIENT: &str = "10.1.0.1:40000";
const FAR: &str = "10.2.0.9:80";
const VIP: &str = "10.96.0.1:80";
/// `TC_ACT_SHOT`, `TC_ACT_REDIRECT`
pub const SHOT: u32 = 2;
pub const REDIRECT: u32 = 7;
pub const TO_PROXY: u32 = 0x5eed_0000;
pub const BY_PROXY: u32 = 0x5eed_0001;
/// Where `mark` is in a `struct __sk_buff`.
const MARK: usize = 8;

fn service(node: &Node, flags: types::service_flags) {
    let mut key = mapped("10.96.0.1").to_vec();
    key.extend(80_u16.to_be_bytes());
    key.extend([6, 0]);
    let value = words(&[7, 0, 0, 0, 0, 0, 0, flags.0]);
    node.map("services")
        .update(&key, &value, MapFlags::ANY)
        .unwrap();
}

fn ready(node: &Node, ready: u32) {
    let state = node.map("proxy_state");
    state
        .update(&words(&[0]), &words(&[ready, 0]), MapFlags::ANY)
        .unwrap();
}

/// Action and mark of a packet that comes with `mark`.
pub fn run(program: &ProgramMut<'_>, pod: Pod, packet: &Packet, mark: u32) -> (u32, u32) {
    let mut before = context(pod.interface);
    before[MARK..MARK + 4].copy_from_slice(&mark.to_ne_bytes());
    let mut after = before.clone();
    let input = ProgramInput {
        context_in: Some(&mut before),
        context_out: Some(&mut after),
        data_in: Some(&packet.frame()),
        ..Default::default()
    };
    let action = program.test_run(input).unwrap().return_value;
    let mark = u32::from_ne_bytes(after[MARK..MARK + 4].try_into().unwrap());
    (action, mark)
}

pub fn last_reason(node: &Node) -> types::reason {
    types::reason(node.events().last().expect("an event").reason)
}

#[test]
fn without_envoy_a_service_of_layer_7_is_refused_and_others_are_not_asked() {
    on_a_node(|node| {
        let syn = tcp(CLIENT, VIP).syn(1);
        service(node, types::service_flags::SERVICE_TIMED);
        assert_eq!(node.from(A, &syn), Passed, "not of layer 7");
        service(node, types::service_flags::SERVICE_LAYER7);
        for state in [0, 1, 2] {
            // Even if it is said to be ready: nobody listens in this network namespace.
            ready(node, state);
            let syn = tcp(&format!("10.1.0.1:{}", 41_000 + state), VIP).syn(1);
            assert_eq!(node.from(A, &syn), Dropped);
            assert_eq!(last_reason(node), types::reason::REASON_PROXY_DOWN);
        }
        let elsewhere = tcp(CLIENT, "10.96.0.1:81").syn(1);
        assert_eq!(node.from(A, &elsewhere), Passed, "another port");
    });
}

/// Policies are about whom the request reaches: Envoy's own connection is judged, not the one to Envoy.
#[test]
fn what_goes_on_to_envoy_is_marked_and_not_judged() {
    on_a_node(|node| {
        service(node, types::service_flags::SERVICE_LAYER7);
        node.policy(A, Egress, &[deny(9)]);
        let program = &node.programs().weft_from_pod;
        // No SYN: it finds its socket by its addresses.
        let data = tcp(CLIENT, VIP).sequence(5).ack(7).data(b"x");
        let (action, mark) = run(program, A, &data, 0);
        assert_eq!((action, mark), (u32::MAX, TO_PROXY));
        assert_eq!(
            node.from(A, &tcp(CLIENT, FAR).syn(1)),
            Dropped,
            "anything else is"
        );
    });
}

/// A connection of A to another node, as Envoy opens it in A's name.
fn upstream(node: &Node) {
    assert_eq!(node.from(A, &tcp(CLIENT, FAR).syn(1)), Passed);
    assert_eq!(node.to(A, &tcp(FAR, CLIENT).syn(9).ack(2)), Passed);
    assert_eq!(node.from(A, &tcp(CLIENT, FAR).sequence(2).ack(10)), Passed);
    let place = offset_of!(types::flow, proxy);
    // A's address is the lesser: end 0.
    let upstream = types::flow_proxy::PROXY_UPSTREAM_0.0 as u8;
    node.change_flows("ct", |flow| flow[place] = upstream);
}

#[test]
fn a_reply_to_envoy_is_turned_back_from_the_pod() {
    on_a_node(|node| {
        upstream(node);
        let reply = tcp(FAR, CLIENT).sequence(10).ack(2).data(b"reply");
        let (action, mark) = run(&node.programs().weft_to_pod, A, &reply, 0);
        assert_eq!((action, mark), (REDIRECT, TO_PROXY));
        // And comes in again: with that mark it is not the pod's.
        let (action, _) = run(&node.programs().weft_from_pod, A, &reply, TO_PROXY);
        assert_eq!(action, u32::MAX);
        assert_eq!(
            node.from(A, &reply),
            Dropped,
            "without it is a forged source"
        );
        assert_eq!(last_reason(node), types::reason::REASON_SPOOFED);
    });
}

#[test]
fn a_pod_does_not_speak_for_envoy() {
    on_a_node(|node| {
        upstream(node);
        let forged = tcp(CLIENT, FAR).sequence(2).ack(10).data(b"GET /");
        assert_eq!(node.from(A, &forged), Dropped);
        assert_eq!(last_reason(node), types::reason::REASON_SPOOFED);
    });
}

#[test]
fn what_envoy_sends_in_its_own_name_has_no_right_of_the_node() {
    on_a_node(|node| {
        node.policy(B, Ingress, &[deny(9)]);
        let program = &node.programs().weft_to_pod;
        let syn = |port: u16| tcp(&format!("10.1.0.254:{port}"), "10.1.0.2:80").syn(1);
        assert_eq!(
            run(program, B, &syn(1000), 0).0,
            u32::MAX,
            "the node itself"
        );
        assert_eq!(run(program, B, &syn(1001), BY_PROXY).0, SHOT);
        assert_eq!(last_reason(node), types::reason::REASON_POLICY);
    });
}
