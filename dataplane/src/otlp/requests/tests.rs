use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use weft_proto::convert::tracing::{CAME_BY, FOR_SERVER, STANDS_FOR, WENT_BY};

use super::*;
use crate::flow::fake::Fake;
use crate::flow::tests::event;
use crate::flow::{Clock, Event, EventKind, Namer, Reason};
use crate::otlp::ids;

const BOOT_NANOS: u64 = 1_000_000_000_000;
const OPENED: u64 = 5_000_000_000;

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(value.to_owned())),
        }),
        ..Default::default()
    }
}

fn span(attributes: &[(&str, &str)]) -> Span {
    Span {
        trace_id: vec![1; 16],
        attributes: attributes.iter().map(|(k, v)| text(k, v)).collect(),
        ..Default::default()
    }
}

fn attribute(span: &Span, key: &str) -> Option<Value> {
    let found = span.attributes.iter().find(|a| a.key == key)?;
    found.value.clone()?.value
}

/// A connection of which these things happen.
fn happened(requests: &mut Requests, kinds: &[(EventKind, u32)]) -> NamedEvent {
    let (mut namer, names) = (Namer::default(), Fake::new());
    let clock = Clock::fixed(BOOT_NANOS, OPENED);
    let mut last = None;
    for (kind, isn) in kinds {
        let event = Event {
            proxied: true,
            isn: *isn,
            ..event(*kind, Reason::REASON_POLICY)
        };
        let named = namer.name(event, &names, &clock);
        requests.remember(&named);
        last = Some(named);
    }
    last.expect("something happened")
}

fn by(named: &NamedEvent) -> String {
    format!("{}|{}", named.event.source, named.event.destination)
}

fn traces(joined: &Joined) -> Vec<Vec<u8>> {
    let links = joined.span.links.iter();
    links.map(|link| link.trace_id.clone()).collect()
}

#[test]
fn a_request_links_to_its_connection_and_keeps_its_own_trace() {
    let mut requests = Requests::default();
    let named = happened(&mut requests, &[(EventKind::Open, 7)]);
    let given = span(&[(CAME_BY, &by(&named)), ("http.method", "GET")]);
    let told = requests.take(given, Instant::now()).expect("it is known");
    assert_eq!(told.span.trace_id, vec![1; 16]);
    assert_eq!(traces(&told), [ids::trace_id(&named, 0).to_vec()]);
    let method = Value::StringValue("GET".to_owned());
    assert_eq!(attribute(&told.span, "http.request.method"), Some(method));
    assert_eq!(attribute(&told.span, CAME_BY), None);
    assert_eq!(told.of, *named.source());
    assert_eq!(told.span.kind(), SpanKind::Client);
}

#[test]
fn a_request_waits_for_what_the_kernel_tells_later() {
    let mut requests = Requests::default();
    let now = Instant::now();
    let named = happened(&mut Requests::default(), &[(EventKind::Open, 7)]);
    let given = span(&[(CAME_BY, &by(&named)), (STANDS_FOR, FOR_SERVER)]);
    assert!(requests.take(given, now).is_none(), "it may come yet");
    assert!(requests.due(now).is_none() && requests.next().is_some());
    happened(&mut requests, &[(EventKind::Open, 7)]);
    let told = requests.due(now + PATIENCE).expect("it is due");
    assert_eq!(traces(&told), [ids::trace_id(&named, 0).to_vec()]);
    assert_eq!(told.of, *named.destination());
    assert_eq!(told.span.kind(), SpanKind::Server);
}

#[test]
fn a_connection_that_was_closed_before_is_another_one() {
    let mut requests = Requests::default();
    let named = happened(
        &mut requests,
        &[(EventKind::Open, 7), (EventKind::Close, 7)],
    );
    let mut given = span(&[(CAME_BY, &by(&named))]);
    given.start_time_unix_nano = named.time_unix_nano + 1_000_000_000;
    let now = Instant::now();
    assert!(requests.take(given.clone(), now).is_none());
    let next = happened(&mut requests, &[(EventKind::Open, 8)]);
    let told = requests.due(now + PATIENCE).expect("it is due");
    assert_eq!(traces(&told), [ids::trace_id(&next, 0).to_vec()]);
}

#[test]
fn what_is_not_known_is_told_without_links() {
    let mut requests = Requests::default();
    let now = Instant::now();
    for ends in ["", "-|-", "10.0.0.1:1", "10.0.0.9:1|10.0.0.8:2"] {
        let given = span(&[(CAME_BY, ends), (WENT_BY, "?")]);
        let at_once = requests.take(given, now);
        let told = at_once.or_else(|| requests.due(now + PATIENCE));
        let told = told.expect("it is told");
        assert!(told.span.links.is_empty(), "{ends}");
    }
    let given = span(&[(CAME_BY, "10.0.0.9:1|10.0.0.8:2")]);
    assert!(requests.take(given, now).is_none());
    let told = requests.last().expect("it is told");
    assert_eq!(told.of.address, "10.0.0.9", "at least where it came from");
}

#[test]
fn those_that_wait_are_bounded_and_none_is_lost() {
    let mut requests = Requests::default();
    let (now, many) = (Instant::now(), MOST_WAITING + 10);
    let given = || span(&[(CAME_BY, "10.0.0.9:1|10.0.0.8:2")]);
    let mut told = 0;
    for _ in 0..many {
        told += usize::from(requests.take(given(), now).is_some());
    }
    assert_eq!((told, requests.waiting.len()), (10, MOST_WAITING));
    while requests.due(now + PATIENCE).is_some() {
        told += 1;
    }
    assert_eq!(told, many);
}

#[test]
fn what_envoy_says_has_the_names_of_the_conventions() {
    let long = "x".repeat(10_000);
    let given = span(&[
        ("http.url", "http://shop:8080/items?secret=1"),
        ("http.protocol", "HTTP/1.1"),
        ("http.status_code", "503"),
        ("response_flags", "UH"),
        ("response_size", "19"),
        ("user_agent", &long),
        ("peer.address", "10.0.0.1"),
        ("downstream_cluster", "-"),
    ]);
    let mut requests = Requests::default();
    let told = requests.take(given, Instant::now()).expect("told at once");
    let is_text = |key: &str, value: &str| {
        assert_eq!(
            attribute(&told.span, key),
            Some(Value::StringValue(value.to_owned())),
            "{key}"
        );
    };
    is_text("url.path", "/items");
    is_text("url.scheme", "http");
    is_text("server.address", "shop");
    is_text("network.protocol.version", "1.1");
    is_text("error.type", "503");
    is_text("weft.envoy.response_flags", "UH");
    is_text("user_agent.original", &format!("{}…", &long[..512]));
    for (key, value) in [
        ("server.port", 8080),
        ("http.response.status_code", 503),
        ("http.response.body.size", 19),
    ] {
        assert_eq!(attribute(&told.span, key), Some(Value::IntValue(value)));
    }
    assert!(told.urgent && told.span.status.is_some());
    assert_eq!(attribute(&told.span, "peer.address"), None);
}

#[test]
fn an_error_is_one_by_the_side_that_is_told() {
    for (status, for_whom, is_error, is_urgent) in [
        ("404", "client", true, false),
        ("404", FOR_SERVER, false, false),
        ("500", FOR_SERVER, true, true),
        ("0", "client", true, true),
        ("200", "client", false, false),
    ] {
        let given = span(&[("http.status_code", status), (STANDS_FOR, for_whom)]);
        let told = Requests::default().take(given, Instant::now());
        let told = told.expect("told at once");
        let seen = (told.span.status.is_some(), told.urgent);
        assert_eq!(seen, (is_error, is_urgent), "{status} {for_whom}");
    }
}
