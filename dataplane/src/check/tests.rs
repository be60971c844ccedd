use std::net::IpAddr;

use weft_proto::wire::admin::v1 as wire;

use super::*;
use crate::flow::fake::{CART, FROM_WEB, Fake, PROBE, SELECTED, VIP, WEB};
use crate::flow::protocol;

/// A kernel that lets only web's port through to the cart, and knows nothing of other nodes.
struct Kernel;

impl CheckProgram for Kernel {
    fn check(&self, packet: &Packet) -> io::Result<Judged> {
        let fake = Fake::new();
        let local = |at: SocketAddr| fake.workload(at.ip()).is_some_and(|w| w.node == "n1");
        let open = Judgement {
            allowed: true,
            by_proxy: false,
            reason: Reason::REASON_DEFAULT,
            rule: 0,
            audit: 0,
        };
        let ingress = match packet.destination.port() {
            8080 => Judgement {
                reason: Reason::REASON_POLICY,
                rule: FROM_WEB,
                ..open
            },
            _ => Judgement {
                allowed: false,
                by_proxy: false,
                reason: Reason::REASON_ISOLATED,
                rule: SELECTED,
                ..open
            },
        };
        Ok(Judged {
            source_identity: 17,
            destination_identity: 18,
            egress: local(packet.source).then_some(open),
            ingress: local(packet.destination).then_some(ingress),
        })
    }
}

fn ask(from: &str, to: &str, port: u32, protocol: &str) -> Result<wire::CheckReply, String> {
    let question = Question::try_from(wire::CheckRequest {
        from: from.into(),
        to: to.into(),
        port,
        protocol: protocol.into(),
    })
    .map_err(|e| e.to_string())?;
    check(&question, &Fake::new(), &Kernel).map_err(|e| e.to_string())
}

fn messages(reply: &wire::CheckReply) -> Vec<&str> {
    reply.answers.iter().map(|a| a.message.as_str()).collect()
}

#[test]
fn a_denied_port_names_the_object_and_both_families_are_one_answer() {
    let reply = ask("default/probe", "shop/cart-7d9c5b8f6-x2x7k", 22, "").expect("an answer");
    assert_eq!(
        messages(&reply),
        [
            "denied: NetworkPolicy shop/cart-ingress selects shop/cart-7d9c5b8f6-x2x7k and none of its rules lets TCP 22 \
             from default/probe in"
        ]
    );
    assert_eq!((reply.verdict.as_str(), reply.hints.len()), ("denied", 0));
    let [answer] = reply.answers.as_slice() else {
        panic!("{reply:?}")
    };
    assert_eq!(answer.destinations.len(), 2);
    let ingress = answer.ingress.as_ref().expect("judged");
    assert_eq!(ingress.policy, "NetworkPolicy shop/cart-ingress");
    assert_eq!(
        (ingress.reason.as_str(), ingress.node.as_str()),
        ("isolated", "n1")
    );
}

#[test]
fn an_allowed_one_says_by_what() {
    let reply = ask("default/probe", "shop/cart-7d9c5b8f6-x2x7k", 8080, "tcp").expect("an answer");
    assert_eq!(
        messages(&reply),
        [
            "allowed: no policy selects default/probe; NetworkPolicy shop/cart-ingress, rule ingress[0], lets it in"
        ]
    );
}

#[test]
fn backends_on_other_nodes_are_for_those_to_judge() {
    for to in ["shop/cart", "10.96.0.10"] {
        let reply = ask("default/probe", to, 80, "").expect("an answer");
        assert_eq!(
            messages(&reply),
            [
                "allowed: no policy selects default/probe; NetworkPolicy shop/cart-ingress, rule ingress[0], lets it in",
                "allowed: no policy selects default/probe; node n2 decides what shop/web-0 lets in",
            ],
            "{to}"
        );
        assert_eq!(reply.hints, ["node n2 has its own say: ask the same there"]);
        assert!(reply.answers.iter().all(|a| a.service == "shop/cart"));
    }
    let by_name = ask("default/probe", "shop/cart", 0, "").expect("an answer");
    let by_address = ask("10.0.1.1", &IpAddr::from(VIP).to_string(), 0, "").expect("an answer");
    let count = |reply: &wire::CheckReply| reply.answers[0].destinations.len();
    assert_eq!((count(&by_name), count(&by_address)), (2, 1));
}

#[test]
fn what_is_no_pod_is_not_judged() {
    let reply = ask("192.0.2.7", "10.0.1.2", 0, "icmp").expect("an answer");
    assert_eq!(
        messages(&reply),
        [
            "denied: NetworkPolicy shop/cart-ingress selects shop/cart-7d9c5b8f6-x2x7k and none of its rules lets ICMP from \
             192.0.2.7 in"
        ]
    );
    assert_eq!(reply.answers[0].protocol, "icmp");
    let outside = ask("default/probe", "192.0.2.7", 443, "").expect("an answer");
    assert_eq!(
        messages(&outside),
        [
            "allowed: no policy selects default/probe; 192.0.2.7 is no pod with an address of its own, so no policy selects it"
        ]
    );
}

#[test]
fn a_service_without_backends_is_refused_at_once() {
    let reply = ask("default/probe", "shop/nobody", 0, "").expect("an answer");
    assert_eq!(
        messages(&reply),
        ["denied: shop/nobody: the service has no backend that takes connections"]
    );
    assert_eq!(reply.verdict, "denied");
}

#[test]
fn questions_that_cannot_be_answered_say_what_to_do() {
    for (from, to, port, protocol, expected) in [
        (
            "default/nobody",
            "shop/cart",
            0,
            "",
            "there is no pod default/nobody",
        ),
        (
            "default/probe",
            "shop/nothing",
            0,
            "",
            "neither a pod nor a service shop/nothing",
        ),
        (
            "default/probe",
            "shop/cart",
            81,
            "",
            "has no port 81: it has 80/tcp",
        ),
        (
            "default/probe",
            "shop/cart",
            80,
            "udp",
            "has no port 80/udp",
        ),
        (
            "default/probe",
            "shop/web-0",
            0,
            "",
            "give a port, as in shop/web-0:8080",
        ),
        (
            "fd00::9",
            "shop/web-0",
            80,
            "",
            "no addresses of the same family",
        ),
        ("probe", "shop/cart", 0, "", "\"probe\" is no place"),
        ("default/probe", "shop/cart", 70_000, "", "70000 is no port"),
        (
            "default/probe",
            "shop/cart",
            0,
            "gre",
            "\"gre\" is no protocol",
        ),
        ("default/probe", "shop/cart", 8, "icmp", "ICMP has no ports"),
    ] {
        let error = ask(from, to, port, protocol).expect_err("no answer");
        assert!(error.contains(expected), "{error}");
    }
    let behind = ask("10.0.1.1", "10.0.1.2", 0, "").expect("its service's port");
    assert_eq!(behind.answers[0].destinations[0].port, 8080);
    assert_eq!(Fake::new().ports_behind(&[WEB.into()]), []);
    assert_eq!(
        Fake::new().ports_behind(&[CART.into()]),
        [(8080, protocol::TCP)]
    );
    assert!(Fake::new().workload(PROBE.into()).is_some());
}
