//! Flows, connections, policies and answers, as people read them.

use serde_json::Value;
use weft_proto::wire::admin::v1::{Answer, CheckReply, ConfigProblem, Connection, Policy, Side};
use weft_proto::wire::flow::v1::{Endpoint, Flow, Traffic};

use super::super::*;

fn probe() -> Endpoint {
    Endpoint {
        address: "10.0.1.1".into(),
        port: 40_000,
        namespace: "default".into(),
        pod: "probe".into(),
        workload: "probe".into(),
        node: "n1".into(),
        ..Default::default()
    }
}

fn cart() -> Endpoint {
    Endpoint {
        address: "10.0.1.2".into(),
        port: 8080,
        namespace: "shop".into(),
        pod: "cart".into(),
        workload: "cart".into(),
        node: "n1".into(),
        ..Default::default()
    }
}

fn a_flow() -> Flow {
    Flow {
        time_unix_nano: 1_795_203_845_250_000_000,
        event: "denied".into(),
        direction: "ingress".into(),
        protocol: "tcp".into(),
        source: Some(probe()),
        destination: Some(cart()),
        service: "shop/cart".into(),
        verdict: "denied".into(),
        reason: "isolated".into(),
        policy: "NetworkPolicy shop/cart-ingress".into(),
        path: "kernel".into(),
        bytes: Some(Traffic {
            sent: 60,
            received: 0,
        }),
        duration_ms: 12,
        message: "denied: NetworkPolicy shop/cart-ingress selects shop/cart and none of its rules lets TCP 8080 from \
                  default/probe in"
            .into(),
        ..Default::default()
    }
}

#[test]
fn flows_for_people() {
    let mut lines = FlowLines::new(Style::Terminal, false);
    let text = [
        lines.head(),
        lines.flow(&a_flow()),
        lines.lost(7),
        lines.flow(&a_flow()),
    ]
    .concat();
    let expected = "\
TIME (UTC)    EVENT     WHAT
2026-11-20
19:44:05.250  denied    tcp default/probe:40000 -> shop/cart:8080 (shop/cart)
                        NetworkPolicy shop/cart-ingress selects shop/cart and
                        none of its rules lets TCP 8080 from default/probe in
              lost      7 flows came too fast for this reader
19:44:05.250  denied    tcp default/probe:40000 -> shop/cart:8080 (shop/cart)
                        NetworkPolicy shop/cart-ingress selects shop/cart and
                        none of its rules lets TCP 8080 from default/probe in
";
    assert_eq!(text, expected);
}

#[test]
fn what_was_refused_stands_out_on_a_terminal() {
    let text = FlowLines::new(Style::Terminal, true).flow(&a_flow());
    let painted = "19:44:05.250  \x1b[1;31mdenied  \x1b[0m  tcp default/probe:40000";
    assert!(text.contains(painted), "{text:?}");
}

#[test]
fn flows_for_grep_are_one_line_each() {
    let text = FlowLines::new(Style::Plain, false).flow(&a_flow());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[1].ends_with("from default/probe in"), "{text}");
}

/// The names that programs rely on.
#[test]
fn flows_for_programs() {
    let json: Value = serde_json::to_value(a_flow()).expect("JSON");
    let expected = serde_json::json!({
        "time": "2026-11-20T19:44:05.250000Z",
        "event": "denied",
        "direction": "ingress",
        "protocol": "tcp",
        "source": {
            "address": "10.0.1.1", "port": 40_000, "namespace": "default", "pod": "probe", "workload": "probe",
            "serviceAccount": "", "node": "n1", "identity": 0, "identityName": "",
        },
        "destination": {
            "address": "10.0.1.2", "port": 8080, "namespace": "shop", "pod": "cart", "workload": "cart",
            "serviceAccount": "", "node": "n1", "identity": 0, "identityName": "",
        },
        "service": "shop/cart",
        "serviceAddress": "",
        "verdict": "denied",
        "reason": "isolated",
        "policy": "NetworkPolicy shop/cart-ingress",
        "rule": "",
        "path": "kernel",
        "accelerated": false,
        "bytes": {"sent": 60, "received": 0},
        "packets": null,
        "durationMs": 12,
        "rttUs": 0,
        "retransmits": 0,
        "tcpFlags": "",
        "request": null,
        "message": a_flow().message,
    });
    assert_eq!(json, expected);
    let lost: Value = serde_json::to_value(lost_json(3)).expect("JSON");
    assert_eq!(lost, serde_json::json!({"event": "lost", "flows": 3}));
}

#[test]
fn connections_fit_a_terminal() {
    let connection = Connection {
        state: "established".into(),
        protocol: "tcp".into(),
        source: Some(probe()),
        destination: Some(cart()),
        service: "shop/cart".into(),
        bytes: Some(Traffic {
            sent: 1_234,
            received: 5_678_901,
        }),
        age_ms: 61_500,
        expires_in_ms: 86_340_000,
        ..Default::default()
    };
    let text = connections(std::slice::from_ref(&connection), Style::Plain);
    let row: Vec<&str> = text.lines().nth(1).expect("a row").split("  ").collect();
    let row: Vec<&str> = row
        .into_iter()
        .map(str::trim)
        .filter(|c| !c.is_empty())
        .collect();
    let expected = [
        "tcp",
        "established",
        "default/probe:40000",
        "shop/cart:8080",
        "shop/cart",
        "1234",
        "5678901",
        "1m 1s",
        "23h 59m",
    ];
    assert_eq!(row, expected);
    let narrow = connections(&[connection], Style::Columns(80));
    for line in narrow.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn policies_say_whom_they_select_and_what_is_wrong() {
    let policy = Policy {
        kind: "NetworkPolicy".into(),
        namespace: "shop".into(),
        name: "cart-ingress".into(),
        directions: vec!["egress".into(), "ingress".into()],
        tier: "namespace".into(),
        mode: "enforce".into(),
        effects: vec!["allow".into()],
        pods: vec!["shop/cart".into()],
        rules: 2,
        problems: vec![ConfigProblem {
            field: "spec.ingress[0].ports[0].port".into(),
            message: "is 70000: give 1 to 65535".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let cluster = Policy {
        kind: "ClusterNetworkPolicy".into(),
        name: "no-ssh".into(),
        directions: vec!["ingress".into()],
        tier: "admin".into(),
        priority: 10,
        mode: "audit".into(),
        ..Default::default()
    };
    let text = policies(&[policy, cluster], Style::Plain);
    for part in [
        "shop/cart-ingress",
        "egress,ingress",
        "spec.ingress[0].ports[0].port: is 70000: give 1 to 65535",
        "admin 10",
        "no-ssh",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn an_answer_says_who_decided() {
    let reply = CheckReply {
        verdict: "denied".into(),
        answers: vec![Answer {
            source: Some(probe()),
            destinations: vec![cart()],
            protocol: "tcp".into(),
            verdict: "denied".into(),
            path: "kernel".into(),
            egress: Some(Side {
                verdict: "elsewhere".into(),
                message: "node n2 decides what default/probe lets out".into(),
                ..Default::default()
            }),
            ingress: Some(Side {
                verdict: "denied".into(),
                reason: "isolated".into(),
                message: "NetworkPolicy shop/cart-ingress selects shop/cart".into(),
                ..Default::default()
            }),
            message: "denied: NetworkPolicy shop/cart-ingress selects shop/cart".into(),
            ..Default::default()
        }],
        hints: vec!["node n2 has its own say: ask the same there".into()],
    };
    let expected = "\
denied: NetworkPolicy shop/cart-ingress selects shop/cart
  from     default/probe, 10.0.1.1
  to       shop/cart:8080/tcp, 10.0.1.2
  egress   not judged here: node n2 decides what default/probe lets out
  ingress  denied (isolated): NetworkPolicy shop/cart-ingress selects shop/cart
note: node n2 has its own say: ask the same there
";
    assert_eq!(check(&reply), expected);
}
