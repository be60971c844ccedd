use super::*;
use crate::flow::fake::{Fake, VIP};
use crate::flow::tests::{event, text};
use crate::flow::{Clock, Event, Namer};

fn named(events: &[Event]) -> Vec<NamedEvent> {
    let (mut namer, names, clock) = (Namer::default(), Fake::new(), Clock::fixed(0, 0));
    let events = events.iter();
    events.map(|e| namer.name(*e, &names, &clock)).collect()
}

#[test]
fn a_pair_has_what_its_connections_were() {
    let metrics = WorkloadMetrics::new(WORKLOAD_PAIRS);
    let closed = Event {
        first_ns: 1,
        bytes: [100, 2_000],
        packets: [3, 4],
        rtt_us: 80,
        retransmits: 2,
        ..event(EventKind::Close, Reason::REASON_FIN)
    };
    metrics.count(&named(&[
        event(EventKind::Open, Reason::REASON_NONE),
        closed,
        closed,
        event(EventKind::Denied, Reason::REASON_ISOLATED),
    ]));
    let text = text(|r| metrics.register(r));
    for (name, labels, value) in [
        ("connections_opened_total", "", 1),
        ("connections_closed_total", ",reason=\"fin\"", 2),
        ("connections_denied_total", ",reason=\"isolated\"", 1),
        (
            "connection_traffic_bytes_total",
            ",sender=\"destination\"",
            4_000,
        ),
        ("connection_packets_total", ",sender=\"source\"", 6),
        ("connection_retransmits_total", "", 4),
    ] {
        let line = text.lines().find(|line| {
            line.starts_with(&format!("weft_{name}{{"))
                && line.contains("destination_workload=\"cart\"")
                && line.contains(labels)
        });
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        assert!(line.ends_with(&format!(" {value}")), "{line}");
    }
    assert!(
        text.contains("weft_connection_rtt_seconds_count 2"),
        "{text}"
    );
    assert!(text.contains("weft_connection_duration_seconds_count 2"));
}

#[test]
fn what_is_handed_over_at_a_services_address_is_to_envoy_and_not_to_the_world() {
    let metrics = WorkloadMetrics::new(WORKLOAD_PAIRS);
    let opened = event(EventKind::Open, Reason::REASON_PROXY);
    let to_service = Event {
        destination: (VIP, 80).into(),
        destination_identity: 1,
        proxied: true,
        direction: Some(Direction::Egress),
        ..opened
    };
    metrics.count(&named(&[to_service]));
    let edges = metrics.edges();
    let [edge] = edges.as_slice() else {
        panic!("{edges:?}");
    };
    assert_eq!(edge.service, "shop/cart");
    assert_eq!(edge.destination.1, "envoy");
}

#[test]
fn pairs_beyond_the_bound_share_a_series_that_says_so() {
    let metrics = WorkloadMetrics::new(NonZeroUsize::new(1).expect("not zero"));
    let opened = event(EventKind::Open, Reason::REASON_NONE);
    let back = Event {
        source: opened.destination,
        destination: opened.source,
        ..opened
    };
    metrics.count(&named(&[opened, back, back]));
    metrics.count(&named(&[opened, back]));
    let text = text(|r| metrics.register(r));
    let values: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("weft_connections_opened_total{"))
        .map(|line| {
            (
                line.contains("\"overflow\""),
                line.ends_with(" 2") || line.ends_with(" 3"),
            )
        })
        .collect();
    assert_eq!(values.len(), 2, "{text}");
    assert!(values.iter().all(|(_, counted)| *counted), "{text}");
    assert_eq!(values.iter().filter(|(overflow, _)| *overflow).count(), 1);
}

#[test]
fn edges_have_what_is_open_on_top_of_what_has_ended() {
    let metrics = WorkloadMetrics::new(WORKLOAD_PAIRS);
    let closed = Event {
        first_ns: 1,
        bytes: [100, 2_000],
        rtt_us: 80,
        ..event(EventKind::Close, Reason::REASON_FIN)
    };
    let denied = event(EventKind::Denied, Reason::REASON_ISOLATED);
    metrics.count(&named(&[closed, denied, denied]));
    let mut edges = metrics.edges();
    assert_eq!(edges.len(), 1);
    let open = Event {
        bytes: [7, 8],
        ..event(EventKind::Open, Reason::REASON_NONE)
    };
    let back = Event {
        source: open.destination,
        destination: open.source,
        ..open
    };
    metrics.add_open(&named(&[open, back]), &mut edges);
    assert_eq!(edges.len(), 2, "one that has only open ones is new");
    let edge = &edges[0];
    assert_eq!(edge.destination, ("shop".into(), "cart".into()));
    assert_eq!((edge.closed, edge.open), (1, 1));
    assert_eq!(edge.bytes, [107, 2_008]);
    assert_eq!(edge.denied, [(Reason::REASON_ISOLATED, 2)]);
    assert_eq!(edge.rtt.counts().iter().sum::<u64>(), 1);
    assert_eq!(edges[1].source, ("shop".into(), "cart".into()));
    assert_eq!(edges[1].open, 1);
}
