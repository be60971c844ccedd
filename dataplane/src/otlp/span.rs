//! Flows as spans.

use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{Span, Status, status::StatusCode};
use opentelemetry_semantic_conventions::attribute as name;
use prost::Message;
use weft_proto::wire::flow::v1::Endpoint;

use super::attributes;
use super::bursts::Burst;
use super::ids::{self, Role};
use super::wire::{self, Attribute};
use crate::flow::{Direction, EventKind, NamedEvent, Reason, protocol};

/// Fields of `Span` that each has for itself.
const TRACE_ID: u32 = 1;
const SPAN_ID: u32 = 2;
const TRACE_STATE: u32 = 3;
const PARENT_SPAN_ID: u32 = 4;
const START_TIME_UNIX_NANO: u32 = 7;
const END_TIME_UNIX_NANO: u32 = 8;
const ATTRIBUTES: u32 = 9;
const EVENTS: u32 = 11;
const STATUS: u32 = 15;
const FLAGS: u32 = 16;

/// `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`, `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK` and the sampled bit of W3C trace context.
const SAMPLED: u32 = 0x001;
const PARENT_IS_REMOTE: u32 = 0x300;

/// When and as what: what the spans of one event have in common.
pub(super) struct Frame<'a> {
    named: &'a NamedEvent,
    /// Of the ends that are told of.
    pub(super) roles: &'static [Role],
    /// Id of the trace.
    pub(super) trace: [u8; 16],
    start: u64,
    /// Segments that were sent again, as far as it is known when.
    pub(super) bursts: Vec<Burst>,
    /// Something was refused or went wrong: told whatever share is traced.
    pub(super) urgent: bool,
}

impl<'a> Frame<'a> {
    /// Of a flow that `node` tells of; `None` while it goes on.
    pub(super) fn new(named: &'a NamedEvent, node: &str) -> Option<Self> {
        let roles = roles(named, node)?;
        let start = ids::start_unix_nano(named);
        Some(Self {
            named,
            roles,
            trace: ids::trace_id(named, start),
            start,
            bursts: Vec::new(),
            urgent: went_wrong(named),
        })
    }

    /// What it is about.
    pub(super) fn named(&self) -> &NamedEvent {
        self.named
    }

    /// The workload at this end.
    pub(super) fn of(&self, role: Role) -> &'a Arc<Endpoint> {
        match role {
            Role::Client => self.named.source(),
            Role::Server => self.named.destination(),
        }
    }

    /// Of the span of this end, what it shares with those of its sort.
    pub(super) fn common(&self, role: Role) -> Span {
        let mut attributes = attributes::of_sort(self.named);
        if self.urgent {
            attributes.text(name::ERROR_TYPE, self.named.event.reason.word());
        }
        Span {
            name: span_name(self.named),
            kind: match role {
                Role::Client => SpanKind::Client,
                Role::Server => SpanKind::Server,
            }
            .into(),
            attributes: attributes.done(),
            ..Default::default()
        }
    }

    /// And what it has for itself, encoded as further fields of it. `state`: of the trace, as W3C trace context has it.
    pub(super) fn own(&self, role: Role, state: &str, into: &mut Vec<u8>) {
        let event = &self.named.event;
        let client = ids::span_id(self.trace, Role::Client);
        let own = match role {
            Role::Client => client,
            Role::Server => ids::span_id(self.trace, role),
        };
        // A refusal or an audit is a moment of a connection, not its whole; and there may be many.
        let moment = || ids::moment_id(self.trace, role, event.time_ns);
        let (id, parent) = match (event.kind, role) {
            (EventKind::Audited, _) => (moment(), Some(own)),
            (EventKind::Denied, Role::Client) => (moment(), None),
            (EventKind::Denied, Role::Server) => (moment(), self.is_from_pod().then_some(client)),
            (_, Role::Client) => (own, None),
            (_, Role::Server) => (own, self.is_from_pod().then_some(client)),
        };
        let flags = match (event.kind, parent) {
            (EventKind::Audited, _) | (_, None) => SAMPLED,
            _ => SAMPLED | PARENT_IS_REMOTE,
        };
        into.clear();
        wire::bytes(TRACE_ID, &self.trace, into);
        wire::bytes(SPAN_ID, &id, into);
        wire::bytes(TRACE_STATE, state.as_bytes(), into);
        wire::bytes(
            PARENT_SPAN_ID,
            parent.as_ref().map_or(&[], |p| &p[..]),
            into,
        );
        wire::fixed64(START_TIME_UNIX_NANO, self.start, into);
        wire::fixed64(END_TIME_UNIX_NANO, self.named.time_unix_nano, into);
        attributes::of_its_own(event, |one| wire::attribute(ATTRIBUTES, one, into));
        self.moments(into);
        wire::fixed32(FLAGS, flags, into);
        if self.urgent {
            let status = Status {
                message: self.named.flow().message,
                code: StatusCode::Error.into(),
            };
            wire::bytes(STATUS, &status.encode_to_vec(), into);
        }
    }

    /// What happened to the connection: at its beginning that it was handed to Envoy, when segments were sent again, as far as that
    /// is known, and all else as it was told, at its end.
    fn moments(&self, into: &mut Vec<u8>) {
        let (event, end) = (&self.named.event, self.named.time_unix_nano);
        let mut happened = |time: u64, name: &str, attributes: &[Attribute<'_>]| {
            wire::moment(EVENTS, time, name, attributes, into);
        };
        if self.named.path() == "envoy" {
            happened(self.start, "weft.layer7.handed_over", &[]);
        }
        if event.rtt_us > 0 {
            let rtt = Attribute::Number("weft.tcp.rtt_us", event.rtt_us.into());
            happened(end, "weft.tcp.rtt", &[rtt]);
        }
        let mut others = event.retransmits;
        for burst in &self.bursts {
            others = others.saturating_sub(burst.segments);
            let at = end.saturating_sub(event.time_ns.saturating_sub(burst.first_ns));
            let length_us = burst.last_ns.saturating_sub(burst.first_ns) / 1_000;
            let attributes = [
                Attribute::Number("weft.tcp.retransmits", burst.segments.into()),
                Attribute::Number("weft.tcp.burst_us", length_us),
            ];
            happened(at, "weft.tcp.retransmitted", &attributes);
        }
        if others > 0 {
            let count = Attribute::Number("weft.tcp.retransmits", others.into());
            happened(end, "weft.tcp.retransmitted", &[count]);
        }
        match (event.kind, event.reason) {
            (EventKind::Expired, reason) => {
                let reason = Attribute::Text("weft.reason", reason.word());
                happened(end, "weft.expired", &[reason]);
            }
            (EventKind::Close, Reason::REASON_REVOKED) => match self.named.policy() {
                "" => happened(end, "weft.policy.revoked", &[]),
                policy => {
                    let policy = Attribute::Text("weft.policy", policy);
                    happened(end, "weft.policy.revoked", &[policy]);
                }
            },
            _ => {}
        }
    }

    /// A pod is at the client's end, whose node tells of it.
    fn is_from_pod(&self) -> bool {
        !self.named.source().pod.is_empty()
    }
}

/// Of its end here, of both if both are here.
fn roles(named: &NamedEvent, node: &str) -> Option<&'static [Role]> {
    let event = &named.event;
    let both_here = || named.source().node == node && named.destination().node == node;
    Some(match (event.kind, event.direction) {
        (
            EventKind::Open | EventKind::Retransmitted | EventKind::Ejected | EventKind::Returned,
            _,
        ) => return None,
        // Nobody at the other end has seen it.
        (EventKind::Expired, Some(Direction::Ingress))
            if event.reason == Reason::REASON_NO_REPLY =>
        {
            &[Role::Server]
        }
        (EventKind::Expired, _) if event.reason == Reason::REASON_NO_REPLY => &[Role::Client],
        (EventKind::Close | EventKind::Expired, _) if both_here() => &[Role::Client, Role::Server],
        (_, Some(Direction::Ingress)) => &[Role::Server],
        _ => &[Role::Client],
    })
}

fn went_wrong(named: &NamedEvent) -> bool {
    let event = &named.event;
    match event.kind {
        EventKind::Denied => true,
        EventKind::Expired => event.reason == Reason::REASON_NO_REPLY,
        EventKind::Close => matches!(
            event.reason,
            Reason::REASON_REVOKED | Reason::REASON_BACKEND_GONE
        ),
        _ => false,
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

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, any_value::Value};

    use super::*;
    use crate::flow::fake::Fake;
    use crate::flow::tests::event;
    use crate::flow::{Clock, Event, Namer};

    /// What n1 tells of an event.
    fn told(event: Event) -> Vec<Span> {
        let clock = Clock::fixed(1_000_000_000_000, 5_000_000_000);
        let named = Namer::default().name(event, &Fake::new(), &clock);
        let Some(frame) = Frame::new(&named, "n1") else {
            return Vec::new();
        };
        let whole = |role: &Role| {
            let (mut own, common) = (Vec::new(), frame.common(*role));
            frame.own(*role, "", &mut own);
            let bytes = [common.encode_to_vec(), own].concat();
            Span::decode(bytes.as_slice()).expect("a span")
        };
        frame.roles.iter().map(whole).collect()
    }

    fn names(span: &Span) -> Vec<&str> {
        span.events.iter().map(|e| e.name.as_str()).collect()
    }

    #[test]
    fn what_happened_on_the_way_is_told_with_its_time() {
        let closed = Event {
            first_ns: 2_000_000_000,
            proxied: true,
            rtt_us: 210,
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
                    "weft.tcp.rtt",
                    "weft.tcp.retransmitted",
                    "weft.policy.revoked"
                ]
            );
            let times: Vec<u64> = span.events.iter().map(|e| e.time_unix_nano).collect();
            let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
            assert_eq!(times, [start, end, end, end]);
            assert_eq!(end - start, 3_000_000_000);
        }
        let plain = told(event(EventKind::Close, Reason::REASON_FIN));
        assert!(plain.iter().all(|span| names(span).is_empty()));
    }

    #[test]
    fn bursts_are_told_when_they_were_and_what_else_was_sent_again_at_the_end() {
        let closed = Event {
            time_ns: 5_000_000_000,
            first_ns: 2_000_000_000,
            retransmits: 8,
            ..event(EventKind::Close, Reason::REASON_FIN)
        };
        let clock = Clock::fixed(1_000_000_000_000, 5_000_000_000);
        let named = Namer::default().name(closed, &Fake::new(), &clock);
        let mut frame = Frame::new(&named, "n1").expect("a span");
        frame.bursts = [
            (2_500_000_000, 2_700_000_000, 3),
            (4_000_000_000, 4_000_000_000, 1),
        ]
        .map(|(first_ns, last_ns, segments)| Burst {
            first_ns,
            last_ns,
            segments,
        })
        .into();
        let mut own = Vec::new();
        frame.own(Role::Client, "", &mut own);
        let span = Span::decode(own.as_slice()).expect("a span");
        let told = span.events.iter().map(|e| {
            let numbers = e.attributes.iter().map(|a| match &a.value {
                Some(AnyValue {
                    value: Some(Value::IntValue(n)),
                }) => *n,
                other => panic!("{other:?}"),
            });
            (
                e.time_unix_nano - span.start_time_unix_nano,
                numbers.collect::<Vec<_>>(),
            )
        });
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (500_000_000, vec![3, 200_000]),
                (2_000_000_000, vec![1, 0]),
                (3_000_000_000, vec![4]),
            ]
        );
    }

    #[test]
    fn an_expiry_is_told_with_its_reason() {
        let idle = told(event(EventKind::Expired, Reason::REASON_IDLE));
        assert_eq!(idle.len(), 2);
        for span in &idle {
            assert_eq!(names(span), ["weft.expired"]);
            let attribute = &span.events[0].attributes[0];
            assert_eq!(attribute.key, "weft.reason");
            assert!(format!("{:?}", attribute.value).contains("idle-timeout"));
            assert!(span.status.is_none(), "{span:?}");
        }
    }

    #[test]
    fn a_clock_that_jumps_changes_neither_trace_nor_length() {
        let closed = Event {
            first_ns: 2_000_000_000,
            isn: 77,
            ..event(EventKind::Close, Reason::REASON_FIN)
        };
        // As of the batch that tells of it: an hour later, years earlier, before 1970.
        let whens = [
            1_800_000_000_000_000_000,
            1_800_003_600_000_000_000,
            7_000_000_000,
            0,
        ];
        let spans = whens.map(|unix_ns| {
            let clock = Clock::fixed(unix_ns, 5_000_000_000);
            let named = Namer::default().name(closed, &Fake::new(), &clock);
            let frame = Frame::new(&named, "n1").expect("a span");
            let mut own = Vec::new();
            frame.own(Role::Client, "", &mut own);
            Span::decode(own.as_slice()).expect("a span")
        });
        for span in &spans {
            assert_eq!(span.trace_id, spans[0].trace_id);
            assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        }
        for span in &spans[..3] {
            let length = span.end_time_unix_nano - span.start_time_unix_nano;
            assert_eq!(length, 3_000_000_000);
        }
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
