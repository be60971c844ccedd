//! What the spans of one sort have in common is encoded once: most of a span is names.
//!
//! Protobuf allows that. The encodings of two messages of a type, one behind the other, are the encoding of both merged: single
//! fields of the latter hold, repeated ones are added ("Last One Wins", <https://protobuf.dev/programming-guides/encoding/>).

use std::net::SocketAddr;

use foldhash::HashMap;
use prost::Message;

use super::ids::Role;
use super::span::Frame;
use crate::flow::{EventKind, NamedEvent, Reason};

/// Sorts that are remembered, about 1.5 KiB each. Others are encoded each time.
const MOST: usize = 4_096;

/// All that [`Frame::common`] depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sort {
    role: Role,
    kind: EventKind,
    reason: Reason,
    protocol: u8,
    accelerated: bool,
    proxied: bool,
    destination: SocketAddr,
    vip: Option<SocketAddr>,
    /// Where its names are in memory.
    names: [usize; 4],
}

impl Sort {
    fn of(frame: &Frame<'_>, role: Role) -> Self {
        let named = frame.named();
        let event = &named.event;
        Self {
            role,
            kind: event.kind,
            reason: event.reason,
            protocol: event.protocol,
            accelerated: event.accelerated,
            proxied: event.proxied,
            destination: event.destination,
            vip: event.vip,
            names: named.places(),
        }
    }
}

#[derive(Debug)]
struct Template {
    encoded: Box<[u8]>,
    /// Keeps the names, so that nothing else can be at their places.
    _of: NamedEvent,
}

/// The encoded parts of spans.
#[derive(Debug, Default)]
pub(super) struct Templates {
    known: HashMap<Sort, Template>,
    /// Of a sort that is not worth remembering.
    once: Vec<u8>,
}

impl Templates {
    /// What the span of this end shares with others, encoded.
    pub(super) fn of(&mut self, frame: &Frame<'_>, role: Role) -> &[u8] {
        // The rule that decided about a request is that request's own.
        if frame.named().is_about_request() {
            self.once.clear();
            // There is always room in a vector.
            let _ = frame.common(role).encode(&mut self.once);
            return &self.once;
        }
        let sort = Sort::of(frame, role);
        if self.known.len() >= MOST && !self.known.contains_key(&sort) {
            self.known.clear();
        }
        let template = self.known.entry(sort).or_insert_with(|| Template {
            encoded: frame.common(role).encode_to_vec().into(),
            _of: frame.named().clone(),
        });
        &template.encoded
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::trace::v1::Span;

    use super::*;
    use crate::flow::fake::{CART, FROM_WEB, Fake, PROBE, VIP, WEB};
    use crate::flow::tests::event;
    use crate::flow::{Clock, Direction, Event, Namer};

    /// Events that differ from each other in one thing each, and some in several.
    fn events() -> Vec<Event> {
        let plain = event(EventKind::Close, Reason::REASON_FIN);
        let mut all = vec![plain];
        let mut but = |change: &dyn Fn(&mut Event)| {
            let changed = |event: &Event| {
                let mut event = *event;
                change(&mut event);
                event
            };
            let more: Vec<Event> = all.iter().take(8).map(changed).collect();
            all.extend(more);
        };
        but(&|e| e.time_ns += 7);
        but(&|e| e.source.set_port(50_000));
        but(&|e| e.bytes = [1, 2]);
        but(&|e| e.source = (WEB, 40_000).into());
        but(&|e| e.destination.set_port(9090));
        but(&|e| e.vip = Some((VIP, 80).into()));
        but(&|e| e.kind = EventKind::Denied);
        but(&|e| e.kind = EventKind::Expired);
        but(&|e| e.reason = Reason::REASON_IDLE);
        but(&|e| e.protocol = 17);
        but(&|e| e.accelerated = true);
        but(&|e| e.proxied = true);
        but(&|e| e.rule = FROM_WEB);
        but(&|e| e.service = 7);
        but(&|e| e.source_identity = 1);
        but(&|e| e.destination = (PROBE, 8080).into());
        but(&|e| e.direction = Some(Direction::Egress));
        but(&|e| e.isn = 9);
        but(&|e| e.retransmits = 3);
        but(&|e| e.rtt_us = 3);
        all
    }

    #[test]
    fn what_is_remembered_is_what_would_be_encoded_anew() {
        let (mut namer, names, clock) = (Namer::default(), Fake::new(), Clock::fixed(0, 0));
        let mut templates = Templates::default();
        let mut checked = 0;
        // Twice: the second time all of it is remembered.
        for event in events().into_iter().chain(events()) {
            let named = namer.name(event, &names, &clock);
            let Some(frame) = Frame::new(&named, "n1") else {
                continue;
            };
            for role in frame.roles {
                let anew = frame.common(*role).encode_to_vec();
                assert_eq!(templates.of(&frame, *role), anew, "{event:?}");
                checked += 1;
            }
        }
        assert!(checked > 2 * templates.known.len(), "{checked}");
    }

    #[test]
    fn no_attribute_is_told_twice() {
        let (mut namer, names, clock) = (Namer::default(), Fake::new(), Clock::fixed(0, 0));
        for event in events() {
            let named = namer.name(event, &names, &clock);
            let frame = Frame::new(&named, "n1").expect("a span");
            for role in frame.roles {
                let mut own = Vec::new();
                frame.own(*role, "", &mut own);
                let own = Span::decode(own.as_slice()).expect("a span");
                let common = frame.common(*role);
                let all = common.attributes.iter().chain(&own.attributes);
                let mut keys: Vec<_> = all.map(|a| a.key.as_str()).collect();
                let count = keys.len();
                keys.sort_unstable();
                keys.dedup();
                assert_eq!(keys.len(), count, "{keys:?}");
            }
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut namer, names, clock) = (Namer::default(), Fake::new(), Clock::fixed(0, 0));
        let mut templates = Templates::default();
        for port in 1..=u16::try_from(MOST + 10).expect("few") {
            let event = Event {
                destination: (CART, port).into(),
                ..event(EventKind::Denied, Reason::REASON_ISOLATED)
            };
            let named = namer.name(event, &names, &clock);
            let frame = Frame::new(&named, "n1").expect("a span");
            templates.of(&frame, Role::Server);
        }
        assert!(templates.known.len() <= MOST);
    }
}
