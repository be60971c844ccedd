//! Flows as spans.

use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::span::{Event as Moment, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{Span, Status, status::StatusCode};
use weft_proto::wire::flow::v1::Endpoint;

use super::attributes::{self, Attributes};
use super::ids::{self, Role};
use crate::flow::{Direction, EventKind, NamedEvent, Reason, protocol};

/// `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`, `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK` and the sampled bit of W3C trace context.
const SAMPLED: u32 = 0x001;
const PARENT_IS_REMOTE: u32 = 0x300;

/// A span, and the workload that it is of.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) of: Arc<Endpoint>,
    pub(super) span: Span,
    /// Something was refused or went wrong: told whatever share is traced.
    pub(super) urgent: bool,
}

/// When and as what: what the spans of one event have in common.
struct Frame<'a> {
    named: &'a NamedEvent,
    trace: [u8; 16],
    start: u64,
    error: Option<String>,
}

/// The spans of a flow that `node` tells of: of its end here, of both if both are here; none while it goes on.
pub(super) fn spans(named: &NamedEvent, node: &str) -> Vec<Told> {
    let event = &named.event;
    let both_here = named.source().node == node && named.destination().node == node;
    let roles: &[Role] = match (event.kind, event.direction) {
        (EventKind::Open | EventKind::Ejected | EventKind::Returned, _) => return Vec::new(),
        // Nobody at the other end has seen it.
        (EventKind::Expired, _) if event.reason == Reason::REASON_NO_REPLY => match event.direction
        {
            Some(Direction::Ingress) => &[Role::Server],
            _ => &[Role::Client],
        },
        (EventKind::Close | EventKind::Expired, _) if both_here => &[Role::Client, Role::Server],
        (_, Some(Direction::Ingress)) => &[Role::Server],
        _ => &[Role::Client],
    };
    let end = named.time_unix_nano;
    let start = match event.first_ns {
        0 => end,
        first => end.saturating_sub(event.time_ns.saturating_sub(first)),
    };
    let frame = Frame {
        named,
        trace: ids::trace_id(named, start),
        start,
        error: error(named),
    };
    roles.iter().map(|role| frame.tell(*role)).collect()
}

/// What went wrong, in a sentence.
fn error(named: &NamedEvent) -> Option<String> {
    let event = &named.event;
    let wrong = match event.kind {
        EventKind::Denied => true,
        EventKind::Expired => event.reason == Reason::REASON_NO_REPLY,
        EventKind::Close => matches!(
            event.reason,
            Reason::REASON_REVOKED | Reason::REASON_BACKEND_GONE
        ),
        _ => false,
    };
    wrong.then(|| named.flow().message)
}

impl Frame<'_> {
    fn tell(&self, role: Role) -> Told {
        let named = self.named;
        let of = match role {
            Role::Client => named.source(),
            Role::Server => named.destination(),
        };
        let event = &named.event;
        // A refusal or an audit is a moment of a connection, not its whole; and there may be many.
        let own = ids::span_id(self.trace, role);
        let (id, parent) = match (event.kind, role) {
            (EventKind::Audited, _) => (
                ids::moment_id(self.trace, role, event.time_ns),
                own.to_vec(),
            ),
            (EventKind::Denied, Role::Client) => {
                (ids::moment_id(self.trace, role, event.time_ns), Vec::new())
            }
            (EventKind::Denied, Role::Server) => (
                ids::moment_id(self.trace, role, event.time_ns),
                self.client(),
            ),
            (_, Role::Client) => (own, Vec::new()),
            (_, Role::Server) => (own, self.client()),
        };
        let flags = if parent.is_empty() || event.kind == EventKind::Audited {
            SAMPLED
        } else {
            SAMPLED | PARENT_IS_REMOTE
        };
        let span = Span {
            trace_id: self.trace.to_vec(),
            span_id: id.to_vec(),
            parent_span_id: parent,
            flags,
            name: span_name(named),
            kind: match role {
                Role::Client => SpanKind::Client,
                Role::Server => SpanKind::Server,
            }
            .into(),
            start_time_unix_nano: self.start,
            end_time_unix_nano: named.time_unix_nano,
            attributes: self.attributes(),
            events: moments(named, self.start),
            status: self.error.as_ref().map(|message| Status {
                message: message.clone(),
                code: StatusCode::Error.into(),
            }),
            ..Default::default()
        };
        Told {
            of: Arc::clone(of),
            span,
            urgent: self.error.is_some(),
        }
    }

    /// The client's span, where a pod is at that end: its node tells of it.
    fn client(&self) -> Vec<u8> {
        if self.named.source().pod.is_empty() {
            return Vec::new();
        }
        ids::span_id(self.trace, Role::Client).to_vec()
    }

    fn attributes(&self) -> Vec<opentelemetry_proto::tonic::common::v1::KeyValue> {
        let mut all = attributes::of_event(self.named);
        if self.error.is_some() {
            let mut more = Attributes::default();
            more.text(
                opentelemetry_semantic_conventions::attribute::ERROR_TYPE,
                self.named.event.reason.word(),
            );
            all.extend(more.done());
        }
        all
    }
}

/// Few of them: "tcp shop/cart", by the service that was asked for, else by the workload that answers.
fn span_name(named: &NamedEvent) -> String {
    let word = protocol::word(named.event.protocol);
    let to = named.destination();
    match (named.service(), to.workload.as_str()) {
        ("", "") => word,
        ("", workload) if to.namespace.is_empty() => format!("{word} {workload}"),
        ("", workload) => format!("{word} {}/{workload}", to.namespace),
        (service, _) => format!("{word} {service}"),
    }
}

/// What happened to the connection: at its beginning that it was handed to Envoy, all else as it was told, at its end.
fn moments(named: &NamedEvent, start: u64) -> Vec<Moment> {
    let event = &named.event;
    let end = named.time_unix_nano;
    let mut all = Vec::new();
    let mut happened = |time: u64, name: &str, attributes: Attributes| {
        all.push(Moment {
            time_unix_nano: time,
            name: name.to_owned(),
            attributes: attributes.done(),
            ..Default::default()
        });
    };
    if named.path() == "envoy" {
        happened(start, "weft.layer7.handed_over", Attributes::default());
    }
    if event.retransmits > 0 {
        let mut attributes = Attributes::default();
        attributes.number("weft.tcp.retransmits", event.retransmits.into());
        happened(end, "weft.tcp.retransmitted", attributes);
    }
    match (event.kind, event.reason) {
        (EventKind::Expired, reason) => {
            let mut attributes = Attributes::default();
            attributes.text("weft.reason", reason.word());
            happened(end, "weft.expired", attributes);
        }
        (EventKind::Close, Reason::REASON_REVOKED) => {
            let mut attributes = Attributes::default();
            attributes.text("weft.policy", named.policy());
            happened(end, "weft.policy.revoked", attributes);
        }
        _ => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::fake::Fake;
    use crate::flow::tests::event;
    use crate::flow::{Clock, Event, Namer};

    /// What n1 tells of an event.
    fn told(event: Event) -> Vec<Span> {
        let clock = Clock::fixed(1_000_000_000_000, 5_000_000_000);
        let named = Namer::default().name(event, &Fake::new(), &clock);
        spans(&named, "n1").into_iter().map(|t| t.span).collect()
    }

    fn names(span: &Span) -> Vec<&str> {
        span.events.iter().map(|e| e.name.as_str()).collect()
    }

    #[test]
    fn what_happened_on_the_way_is_told_with_its_time() {
        let closed = Event {
            first_ns: 2_000_000_000,
            proxied: true,
            retransmits: 3,
            ..event(EventKind::Close, Reason::REASON_REVOKED)
        };
        let both = told(closed);
        assert_eq!(both.len(), 2, "both ends are on n1");
        for span in &both {
            assert_eq!(
                names(span),
                [
                    "weft.layer7.handed_over",
                    "weft.tcp.retransmitted",
                    "weft.policy.revoked"
                ]
            );
            let times: Vec<u64> = span.events.iter().map(|e| e.time_unix_nano).collect();
            let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
            assert_eq!(times, [start, end, end]);
            assert_eq!(end - start, 3_000_000_000);
        }
        let plain = told(event(EventKind::Close, Reason::REASON_FIN));
        assert!(plain.iter().all(|span| names(span).is_empty()));
    }

    #[test]
    fn the_servers_span_is_the_clients_child() {
        let both = told(event(EventKind::Close, Reason::REASON_FIN));
        let [client, server] = both.as_slice() else {
            panic!("{both:?}");
        };
        assert_eq!(client.trace_id, server.trace_id);
        assert_eq!(server.parent_span_id, client.span_id);
        assert!(client.parent_span_id.is_empty());
    }
}
