//! `weft_check` says what the other programs would do, and does nothing.

use std::mem::offset_of;

use libbpf_rs::ProgramInput;

use crate::bytes::{mapped, u32_at};
use crate::node::{A, B, Dropped, Egress, Ingress, Node, Pod, allow, deny, on_a_node};
use crate::packet::udp;
use crate::skel::types::{check, reason, rule, verdict};

struct Answer {
    egress: Option<[u32; 3]>,
    ingress: Option<[u32; 3]>,
    identities: [u32; 2],
}

fn ask(node: &Node, source: &str, destination: &str, port: u16) -> Answer {
    let mut question = vec![0; size_of::<check>()];
    let mut answer = question.clone();
    let source_at = offset_of!(check, source);
    question[source_at..source_at + 16].copy_from_slice(&mapped(source));
    let destination_at = offset_of!(check, destination);
    question[destination_at..destination_at + 16].copy_from_slice(&mapped(destination));
    let port_at = offset_of!(check, destination_port);
    question[port_at..port_at + 2].copy_from_slice(&port.to_be_bytes());
    question[offset_of!(check, protocol)] = 17;
    let input = ProgramInput {
        data_in: Some(&question),
        data_out: Some(&mut answer),
        ..Default::default()
    };
    assert_eq!(
        node.programs()
            .weft_check
            .test_run(input)
            .unwrap()
            .return_value,
        0
    );
    let judgement = |known: usize, at: usize| {
        (answer[known] != 0).then(|| {
            [
                u32::from(answer[at + offset_of!(rule, verdict)]),
                u32::from(answer[at + offset_of!(rule, reason)]),
                u32_at(&answer, at + offset_of!(rule, id)),
            ]
        })
    };
    Answer {
        egress: judgement(offset_of!(check, egress_known), offset_of!(check, egress)),
        ingress: judgement(offset_of!(check, ingress_known), offset_of!(check, ingress)),
        identities: [
            u32_at(&answer, offset_of!(check, source_identity)),
            u32_at(&answer, offset_of!(check, destination_identity)),
        ],
    }
}

const fn said(what: verdict, why: reason, rule: u32) -> Option<[u32; 3]> {
    Some([what.0, why.0, rule])
}

#[test]
fn both_sides_are_asked_and_nothing_is_left_behind() {
    on_a_node(|node| {
        node.policy(A, Egress, &[allow(5)]);
        node.policy(
            B,
            Ingress,
            &[
                deny(6).because(reason::REASON_ISOLATED),
                allow(7).from(1 << 16 | 53),
            ],
        );
        let answer = ask(node, A.address, B.address, 54);
        assert_eq!(
            answer.egress,
            said(verdict::VERDICT_ALLOW, reason::REASON_POLICY, 5)
        );
        assert_eq!(
            answer.ingress,
            said(verdict::VERDICT_ALLOW, reason::REASON_POLICY, 7)
        );
        let answer = ask(node, A.address6, B.address6, 52);
        assert_eq!(
            answer.ingress,
            said(verdict::VERDICT_DENY, reason::REASON_ISOLATED, 6)
        );
        assert_eq!(answer.identities, [A.identity, B.identity]);
        assert!(node.pending().is_empty());
        assert!(node.events().is_empty());
    });
}

#[test]
fn ends_elsewhere_have_no_policy_here() {
    on_a_node(|node| {
        let answer = ask(node, "10.2.0.9", A.address, 1);
        assert_eq!(answer.egress, None);
        assert_eq!(
            answer.ingress,
            said(verdict::VERDICT_ALLOW, reason::REASON_POLICY, 2)
        );
        let answer = ask(node, "8.8.8.8", "10.2.0.9", 1);
        assert_eq!((answer.egress, answer.ingress), (None, None));
    });
}

#[test]
fn it_agrees_with_the_programs() {
    on_a_node(|node| {
        let cases: [(Pod, Pod); 2] = [(A, B), (B, A)];
        node.policy(
            A,
            Egress,
            &[
                deny(1),
                allow(2).from(1 << 16 | 100),
                deny(3).from(1 << 16 | 200),
            ],
        );
        node.policy(A, Ingress, &[allow(1), deny(2).from(1 << 16 | 150)]);
        for (source, destination) in cases {
            for port in [1, 99, 100, 149, 150, 199, 200, 65535] {
                let answer = ask(node, source.address, destination.address, port);
                let denied = [answer.egress, answer.ingress]
                    .into_iter()
                    .flatten()
                    .any(|[what, ..]| what == verdict::VERDICT_DENY.0);
                let packet = udp(
                    &format!("{}:9", source.address),
                    &format!("{}:{port}", destination.address),
                    b"",
                );
                let dropped = node.between(source, destination, &packet) == Dropped;
                assert_eq!(denied, dropped, "{} to port {port}", source.address);
            }
        }
    });
}

#[test]
fn the_node_and_the_unready_are_told_as_such() {
    on_a_node(|node| {
        node.policy(A, Ingress, &[deny(1)]);
        let answer = ask(node, crate::node::HOST, A.address, 1);
        assert_eq!(
            answer.ingress,
            said(verdict::VERDICT_ALLOW, reason::REASON_HOST, 0)
        );
        node.forget_policy(A);
        let answer = ask(node, "10.2.0.9", A.address, 1);
        assert_eq!(
            answer.ingress,
            said(verdict::VERDICT_DENY, reason::REASON_NOT_READY, 0)
        );
    });
}
