//! What the spans of one sort have in common is encoded once: most of a span is names.
//!
//! Protobuf allows that. The encodings of two messages of a type, one behind the other, are the encoding of both merged: single
//! fields of the latter hold, repeated ones are added ("Last One Wins", <https://protobuf.dev/programming-guides/encoding/>).

use std::collections::HashMap;
use std::net::SocketAddr;

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
