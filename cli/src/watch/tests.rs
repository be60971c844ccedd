use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::*;

fn name(name: &str) -> Name {
    Name {
        namespace: "shop".into(),
        name: name.into(),
    }
}

fn key(source: &str, destination: &str, side: Side) -> Key {
    Key {
        source: name(source),
        destination: name(destination),
        service: match side {
            Side::Egress => format!("shop/{destination}"),
            Side::Ingress => String::new(),
        },
        side,
    }
}

fn opened(opened: u64) -> Counts {
    Counts {
        opened,
        ..Counts::default()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_happened_is_the_difference() {
    let (start, mut history) = (Instant::now(), History::default());
    let cart = key("web", "cart", Side::Egress);
    for n in 0..=20_u32 {
        let counts = HashMap::from([(cart.clone(), opened(100 + 5 * u64::from(n)))]);
        history.push(start + SECOND * n, counts);
    }
    let between = history.last(SECOND * 10);
    assert_eq!(between.seconds, 10.0);
    assert_eq!(between.counts, [(cart, opened(50))]);
    let all = history.last(SECOND * 3_600);
    assert_eq!((all.seconds, all.counts[0].1.opened), (20.0, 100));
}

#[test]
fn a_day_is_no_longer_than_an_hour_in_memory() {
    let (start, mut history) = (Instant::now(), History::default());
    let cart = key("web", "cart", Side::Egress);
    let mut most = 0;
    for n in 0..20_000_u32 {
        let counts = HashMap::from([(cart.clone(), opened(n.into()))]);
        history.push(start + SECOND * n, counts);
        most = most.max(history.moments());
    }
    assert!(most < 200, "{most}");
    for window in [10, 60, 300, 900, 3_600] {
        let between = history.last(SECOND * window);
        let off = (between.seconds - f64::from(window)).abs() / f64::from(window);
        assert!(off < 0.2, "{} for {window}", between.seconds);
        assert_eq!(between.counts[0].1.opened as f64, between.seconds);
    }
}

#[test]
fn both_nodes_of_a_connection_count_it_once_and_refusals_of_both() {
    let (start, mut history) = (Instant::now(), History::default());
    history.push(start, HashMap::new());
    let mut ingress = opened(7);
    ingress.denied.insert("isolated".into(), 3);
    let mut egress = opened(7);
    egress.denied.insert("policy".into(), 2);
    let seen = [
        (key("web", "cart", Side::Egress), egress),
        (key("web", "cart", Side::Ingress), ingress),
        (key("far", "cart", Side::Ingress), opened(4)),
    ];
    history.push(start + SECOND, seen.into_iter().collect());
    let between = history.last(SECOND * 10);
    let pairs = pairs(&between);
    assert_eq!(pairs.len(), 2);
    let web = pairs.iter().find(|p| p.source == name("web")).expect("web");
    assert_eq!(web.counts.opened, 7);
    assert_eq!(web.counts.denied.values().sum::<u64>(), 5);
    assert!(web.services.contains("shop/cart"));
    let workloads = Total::of_workloads(&pairs);
    assert_eq!(workloads[&name("cart")].counts.opened, 11);
    assert_eq!(workloads[&name("web")].out, 7);
    assert_eq!(
        workloads[&name("web")].counts.denied.values().sum::<u64>(),
        5
    );
    let services = services(&between);
    assert_eq!(services["shop/cart"].opened, 7);
}

#[test]
fn quantiles_are_within_a_fifth() {
    assert_eq!(Quantiles::of(&[]), None);
    assert_eq!(Quantiles::of(&[0, 0]), None);
    let mut places = vec![0; 30];
    // 94 of about 100 µs, 6 of about 10 ms.
    places[13] = 94;
    places[26] = 6;
    let found = Quantiles::of(&places).expect("some");
    assert!((found.p50 / 107.6 - 1.0).abs() < 0.01, "{found:?}");
    assert!((found.p95 / 9_742.0 - 1.0).abs() < 0.01, "{found:?}");
}

#[test]
fn a_connection_without_a_backend_is_to_its_service() {
    let mut edge = weft_proto::wire::admin::v1::Edge {
        source_namespace: "shop".into(),
        source_workload: "web".into(),
        destination_workload: "unknown".into(),
        service: "shop/nobody".into(),
        ..Default::default()
    };
    let (key, _) = Counts::read(&edge);
    assert_eq!(key.destination.to_string(), "shop/nobody (service)");
    edge.service.clear();
    let (key, _) = Counts::read(&edge);
    assert_eq!(key.destination.to_string(), "unknown");
}
