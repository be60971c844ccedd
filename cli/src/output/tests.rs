use serde_json::Value;
use weft_proto::wire::admin::v1::{
    Backend, Certificate, ConfigProblem, Counter, HostRouting, Identities, Map, PodInterface,
    Program, Rejection, Service, Status, Subscription, Uplink, Workload,
};

use super::*;

mod connections;

fn a_service() -> Service {
    Service {
        service: "shop/cart".into(),
        port_name: "http".into(),
        addresses: vec!["10.96.0.10".into(), "fd00:10:96::a".into()],
        port: 80,
        protocol: "tcp".into(),
        policy: "Maglev".into(),
        locality: "PreferZone".into(),
        affinity_seconds: 10_800,
        ready: 3,
        draining: 1,
        open_connections: 17,
        total_connections: 4_321,
        ..Default::default()
    }
}

fn a_status() -> Status {
    Status {
        node: "n1".into(),
        version: "0.1.0".into(),
        control: "in-process".into(),
        connected: true,
        synced: true,
        attached: false,
        pid: 42,
        uptime_seconds: 75,
        programs: vec![
            Program {
                name: "connect4".into(),
                attach_type: "cgroup".into(),
                attached: true,
                ..Default::default()
            },
            Program {
                name: "sockops".into(),
                error: "no room".into(),
                ..Default::default()
            },
        ],
        interfaces: vec![PodInterface {
            workloads: vec!["pod/shop/web".into()],
            addresses: vec!["10.0.0.7".into(), "fd00::7".into()],
            interface: "veth3".into(),
            index: 9,
            hook: "tcx".into(),
            attached: false,
            error: "no such device".into(),
        }],
        maps: vec![Map {
            name: "slots".into(),
            entries: 5,
            max_entries: 10,
            full: 2,
        }],
        subscriptions: vec![Subscription {
            type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".into(),
            resources: 9,
            last_nonce: "7".into(),
            received: true,
        }],
        rejections: vec![Rejection {
            type_url: "type.googleapis.com/envoy.config.listener.v3.Listener".into(),
            resource: "shop/web:80".into(),
            reason: "filter_chains: two".into(),
        }],
        problems: vec![ConfigProblem {
            origin: "shop.yaml:12".into(),
            object: "Service shop/cart".into(),
            field: "spec.ports[0].port".into(),
            message: "is 70000: give 1 to 65535".into(),
            severity: "error".into(),
        }],
        counters: vec![Counter {
            name: "connections".into(),
            value: u64::MAX,
        }],
        reasons: vec!["sockops is not attached".into()],
        warnings: vec!["map slots keeps its 10 entries".into()],
        policy_epoch: 7,
        host_routing: Some(HostRouting {
            by: "bpf".into(),
            because: "nobody else has a say".into(),
            uplinks: vec![Uplink {
                name: "eth0".into(),
                routed_mtu: 1500,
            }],
        }),
        identities: Some(Identities {
            trust_domain: "cluster.local".to_owned(),
            certificates: 3,
            valid: 2,
            next_expiry: 1_800_000_000,
            trust_bundle: "0123456789abcdef".to_owned(),
            roots: 1,
            ..Identities::default()
        }),
    }
}

#[test]
fn certificates_are_summed_up_and_listed() {
    let text = status(&a_status(), Style::Plain);
    for line in [
        "certs    2 of 3 valid, the first until 2027-01-15T08:00:00Z",
        "trust    cluster.local, bundle 0123456789abcdef, 1 root(s)",
    ] {
        assert!(text.lines().any(|l| l == line), "{text}");
    }
    let none = Identities {
        no_ca: true,
        ..Identities::default()
    };
    let foreign = Status {
        identities: Some(none),
        ..a_status()
    };
    assert!(status(&foreign, Style::Plain).contains("issues no certificates"));
    let ended = Certificate {
        id: "spiffe://cluster.local/ns/shop/sa/cart".into(),
        namespace: "shop".into(),
        service_account: "cart".into(),
        serial: "4f".into(),
        not_after: 1,
        next_attempt_ms: 2_900,
        issued: 4,
        error: "no answer".into(),
        ..Certificate::default()
    };
    assert_eq!(certificate_name(&ended), "shop/cart");
    let text = certificates(&[ended], Style::Plain);
    for part in ["sa/cart", "no", "4f", "ended", "2s", "no answer"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_plain_table_has_one_line_per_row() {
    let text = services(&[a_service(), a_service()], Style::Plain);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("SERVICE"), "{text}");
    for part in [
        "shop/cart",
        "80/tcp (http)",
        "10.96.0.10,fd00:10:96::a",
        "Maglev PreferZone ClientIP 10800s",
        "3, 1 draining",
        "4321",
    ] {
        assert!(lines[1].contains(part), "{part} in {text}");
    }
}

#[test]
fn tables_fit_a_terminal() {
    let backend = Backend {
        service: "shop/cart".into(),
        address: "fd00:10:244:1::7".into(),
        port: 8080,
        protocol: "tcp".into(),
        health: "healthy".into(),
        selected: true,
        weight: 1,
        workload: "shop/cart-7d9c5b8f6-x2x7k".into(),
        node: "node-a".into(),
        zone: "zone-1".into(),
        ..Default::default()
    };
    for width in [80, 120] {
        let style = Style::Columns(width);
        let texts = [
            services(&[a_service()], style),
            backends(std::slice::from_ref(&backend), style),
            status(&a_status(), style),
        ];
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= usize::from(width), "{line}");
        }
    }
}

#[test]
fn empty_cells_are_visible() {
    let text = workloads(
        &[Workload {
            kind: "node".into(),
            name: "n1".into(),
            ..Default::default()
        }],
        Style::Plain,
    );
    let row: Vec<&str> = text
        .lines()
        .nth(1)
        .expect("a row")
        .split_whitespace()
        .collect();
    assert_eq!(row, ["node", "n1", "-", "-", "-", "-", "no"]);
}

#[test]
fn backends_show_ipv6_in_brackets() {
    let backend = Backend {
        address: "fd00::1".into(),
        port: 53,
        protocol: "udp".into(),
        ..Default::default()
    };
    assert!(backends(&[backend], Style::Plain).contains("[fd00::1]:53/udp"));
}

#[test]
fn status_tells_everything() {
    let text = status(&a_status(), Style::Plain);
    for part in [
        "n1",
        "pid 42, up 1m 15s",
        "in-process, connected",
        "policy   epoch 7",
        "no: sockops is not attached",
        "warning  map slots keeps its 10 entries",
        "no: no room",
        "shop/web",
        "veth3",
        "no: no such device",
        "50 %",
        "Cluster",
        "shop/web:80",
        "filter_chains: two",
        "shop.yaml:12",
        "Service shop/cart",
        "spec.ports[0].port",
        "is 70000: give 1 to 65535",
        "18446744073709551615",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn ready_needs_everything() {
    let mut message = a_status();
    assert!(!is_ready(&message));
    message.attached = true;
    assert!(!is_ready(&message));
    let reasons = std::mem::take(&mut message.reasons);
    assert!(!reasons.is_empty() && is_ready(&message));
    message.synced = false;
    assert!(!is_ready(&message));
    assert!(status(&message, Style::Plain).contains("no: not synced"));
}

#[test]
fn json_has_the_fields_and_the_conclusion() {
    let json: Value = serde_json::to_value(status_json(&a_status())).expect("JSON");
    assert_eq!(json["ready"], false);
    assert_eq!(json["node"], "n1");
    assert_eq!(json["uptimeSeconds"], 75);
    assert_eq!(json["problems"][0]["field"], "spec.ports[0].port");
    assert_eq!(json["maps"][0]["maxEntries"], 10);
}

#[test]
fn an_unsized_map_has_no_percentage() {
    let message = Status {
        maps: vec![Map {
            name: "x".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert!(!status(&message, Style::Plain).contains('%'));
}
