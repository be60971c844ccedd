//! Envoy's spans of requests, joined to the connections that carry them.
//!
//! A request's span stays in its own trace, that of whoever asked. It links to the spans of the connections by which it came and went on,
//! and says between which workloads that was. Connections are known from their beginning, as the kernel told it.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::Link;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use weft_proto::convert::tracing::{CAME_BY, FOR_SERVER, STANDS_FOR, WENT_BY};
use weft_proto::wire::flow::v1::Endpoint;

use super::attributes::{self, Attributes};
use super::ids::{self, Role};
use crate::flow::{EventKind, NamedEvent};

/// Connections through Envoy that are remembered; the oldest are forgotten first.
const MOST: usize = 65_536;
/// What the kernel tells of a connection may come a little later than Envoy's span.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// From whom, to whom.
type Ends = (SocketAddr, SocketAddr);

/// A connection, as far as requests need it.
struct Known {
    trace: [u8; 16],
    source: Arc<Endpoint>,
    destination: Arc<Endpoint>,
}

/// A span of a request, and the workload that it is of.
pub(super) struct Joined {
    pub(super) of: Arc<Endpoint>,
    pub(super) span: Span,
    /// The request went wrong.
    pub(super) urgent: bool,
}

/// Remembers connections, and keeps spans until theirs are known.
#[derive(Default)]
pub(super) struct Requests {
    known: HashMap<Ends, Known>,
    order: VecDeque<Ends>,
    waiting: VecDeque<(Instant, Span)>,
}

impl Requests {
    /// Takes notice of a connection that Envoy has a part in.
    pub(super) fn remember(&mut self, named: &NamedEvent) {
        let event = &named.event;
        if event.kind != EventKind::Open || !event.proxied {
            return;
        }
        let ends = (event.source, event.destination);
        let known = Known {
            trace: ids::trace_id(named, named.time_unix_nano),
            source: Arc::clone(named.source()),
            destination: Arc::clone(named.destination()),
        };
        if self.known.insert(ends, known).is_none() {
            self.order.push_back(ends);
        }
        while self.order.len() > MOST {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// Takes a span of a request.
    pub(super) fn wait(&mut self, span: Span, now: Instant) {
        self.waiting.push_back((now + PATIENCE, span));
    }

    /// When the next one has waited long enough.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// One that has.
    pub(super) fn due(&mut self, now: Instant) -> Option<Joined> {
        let is_due = self.next().is_some_and(|due| due <= now);
        let (_, span) = self.waiting.pop_front_if(|_| is_due)?;
        Some(self.join(span))
    }

    fn join(&self, mut span: Span) -> Joined {
        let came = take(&mut span.attributes, CAME_BY).and_then(|text| ends(&text));
        let went = take(&mut span.attributes, WENT_BY).and_then(|text| ends(&text));
        let stands_for = take(&mut span.attributes, STANDS_FOR).unwrap_or_default();
        let came_by = came.and_then(|ends| self.known.get(&ends));
        let went_by = went.and_then(|ends| self.known.get(&ends));
        for known in [came_by, went_by].into_iter().flatten() {
            span.links.push(Link {
                trace_id: known.trace.to_vec(),
                span_id: ids::span_id(known.trace, Role::Client).to_vec(),
                ..Default::default()
            });
        }
        let nobody = || Arc::new(Endpoint::default());
        let source = came_by
            .or(went_by)
            .map_or_else(nobody, |k| Arc::clone(&k.source));
        // A service's address is nobody's: the pod is at the end of the other connection.
        let to = went_by.or(came_by);
        let destination = to.map_or_else(nobody, |k| Arc::clone(&k.destination));
        let mut more = Attributes::default();
        attributes::ends(&mut more, &source, &destination);
        span.attributes.extend(more.done());
        let is_error = |status: &opentelemetry_proto::tonic::trace::v1::Status| {
            status.code() == StatusCode::Error
        };
        Joined {
            of: if stands_for == FOR_SERVER {
                destination
            } else {
                source
            },
            urgent: span.status.as_ref().is_some_and(is_error),
            span,
        }
    }
}

/// Takes an attribute that is text.
fn take(attributes: &mut Vec<KeyValue>, key: &str) -> Option<String> {
    let place = attributes.iter().position(|a| a.key == key)?;
    match attributes.swap_remove(place).value?.value? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// `FROM|TO`.
fn ends(text: &str) -> Option<Ends> {
    let (from, to) = text.split_once('|')?;
    let parse = |text: &str| -> Option<SocketAddr> {
        let at: SocketAddr = text.parse().ok()?;
        Some(SocketAddr::new(at.ip().to_canonical(), at.port()))
    };
    Some((parse(from)?, parse(to)?))
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::AnyValue;

    use super::*;
    use crate::flow::fake::Fake;
    use crate::flow::tests::event;
    use crate::flow::{Clock, Event, Namer, Reason};

    fn text(key: &str, value: &str) -> KeyValue {
        KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue {
                value: Some(Value::StringValue(value.to_owned())),
            }),
            ..Default::default()
        }
    }

    fn opened(requests: &mut Requests) -> NamedEvent {
        let opened = Event {
            proxied: true,
            isn: 7,
            ..event(EventKind::Open, Reason::REASON_POLICY)
        };
        let clock = Clock::fixed(1_000_000_000_000, 5_000_000_000);
        let named = Namer::default().name(opened, &Fake::new(), &clock);
        requests.remember(&named);
        named
    }

    #[test]
    fn a_request_links_to_its_connection_and_keeps_its_own_trace() {
        let mut requests = Requests::default();
        let named = opened(&mut requests);
        let ends = format!("{}|{}", named.event.source, named.event.destination);
        let span = Span {
            trace_id: vec![1; 16],
            attributes: vec![text(CAME_BY, &ends), text("http.method", "GET")],
            ..Default::default()
        };
        let now = Instant::now();
        requests.wait(span, now);
        assert!(requests.due(now).is_none(), "its connection may come yet");
        let told = requests.due(now + PATIENCE).expect("it is due");
        assert_eq!(told.span.trace_id, vec![1; 16]);
        let linked: Vec<_> = told.span.links.iter().map(|l| l.trace_id.clone()).collect();
        assert_eq!(linked, [ids::trace_id(&named, 0).to_vec()]);
        assert!(told.span.attributes.iter().all(|a| a.key != CAME_BY));
        assert_eq!(told.of, *named.source());
    }

    #[test]
    fn what_is_not_known_is_told_without_links() {
        let mut requests = Requests::default();
        for ends in ["", "-|-", "10.0.0.1:1", "10.0.0.9:1|10.0.0.8:2"] {
            let span = Span {
                attributes: vec![text(CAME_BY, ends)],
                ..Default::default()
            };
            let now = Instant::now();
            requests.wait(span, now);
            let told = requests.due(now + PATIENCE).expect("it is due");
            assert!(told.span.links.is_empty(), "{ends}");
        }
    }
}
