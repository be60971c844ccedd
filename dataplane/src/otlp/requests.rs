//! Envoy's spans of requests, joined to the connections that carry them.
//!
//! A request's span stays in its own trace, that of whoever asked. It links to the spans of the connections by which it came and went on,
//! and says between which workloads that was. Connections are known from their beginning, as the kernel told it.

mod intake;
mod known;
mod meaning;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::Link;
use weft_proto::wire::flow::v1::Endpoint;

use super::attributes::{self, Attributes};
use crate::flow::{NamedEvent, shown};
use known::{Connection, Ends, Known};
use meaning::Meaning;

pub use intake::RequestSink;

/// What the kernel tells of a connection may come a little later than Envoy's span.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Spans that wait for it. One more, and the first waits no longer.
const MOST_WAITING: usize = 1_024;

/// A span of a request, and the workload that it is of.
pub(super) struct Joined {
    pub(super) of: Arc<Endpoint>,
    pub(super) span: Span,
    /// The request failed.
    pub(super) urgent: bool,
}

/// A span whose connections may not be known yet.
struct Waiting {
    due: Instant,
    span: Span,
    meaning: Meaning,
    came: Option<Ends>,
    went: Option<Ends>,
}

/// Remembers connections, and keeps spans until theirs are known.
#[derive(Default)]
pub(super) struct Requests {
    known: Known,
    waiting: VecDeque<Waiting>,
}

impl Requests {
    /// Takes notice of a connection that Envoy has a part in.
    pub(super) fn remember(&mut self, named: &NamedEvent) {
        if named.event.proxied {
            self.known.remember(named);
        }
    }

    /// Takes a span of a request; gives one that can be told of, if it is this or another one.
    pub(super) fn take(&mut self, mut span: Span, now: Instant) -> Option<Joined> {
        let meaning = Meaning::of(std::mem::take(&mut span.attributes));
        let waiting = Waiting {
            due: now + PATIENCE,
            came: ends(&meaning.came_by),
            went: ends(&meaning.went_by),
            span,
            meaning,
        };
        if self.is_known(&waiting) {
            return Some(self.join(waiting));
        }
        self.waiting.push_back(waiting);
        let is_full = self.waiting.len() > MOST_WAITING;
        let first = self.waiting.pop_front_if(|_| is_full)?;
        Some(self.join(first))
    }

    /// When the next one has waited long enough.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.front().map(|first| first.due)
    }

    /// One that has, at `now`.
    pub(super) fn due(&mut self, now: Instant) -> Option<Joined> {
        let first = self.waiting.pop_front_if(|first| first.due <= now)?;
        Some(self.join(first))
    }

    /// One, whether it has or not.
    pub(super) fn last(&mut self) -> Option<Joined> {
        let first = self.waiting.pop_front()?;
        Some(self.join(first))
    }

    fn is_known(&self, waiting: &Waiting) -> bool {
        let start = waiting.span.start_time_unix_nano;
        let mut ends = [waiting.came, waiting.went].into_iter().flatten();
        ends.all(|ends| self.known.at(ends, start).is_some())
    }

    fn join(&self, waiting: Waiting) -> Joined {
        let Waiting {
            mut span,
            mut meaning,
            came,
            went,
            ..
        } = waiting;
        let known = |ends| self.known.at(ends, span.start_time_unix_nano);
        let came_by = came.and_then(known);
        let went_by = went.and_then(known);
        let links = [("downstream", came_by), ("upstream", went_by)];
        span.links = links
            .into_iter()
            .filter_map(|(side, connection)| Some(link(side, connection?)))
            .collect();
        let source = who(came_by.or(went_by).map(|c| &c.source), came.map(|e| e.0));
        // A service's address is nobody's: the pod is at the end of the other connection.
        let to = went.or(came).map(|ends| ends.1);
        let destination = who(went_by.or(came_by).map(|c| &c.destination), to);
        span.name = shown(&span.name);
        let urgent = meaning.conclude(&mut span);
        let for_server = meaning.for_server;
        let mut more = meaning.attributes;
        more.text("weft.path", "envoy");
        attributes::ends(&mut more, (&source, came.map(|e| e.0)), (&destination, to));
        span.attributes = more.done();
        Joined {
            of: if for_server { destination } else { source },
            span,
            urgent,
        }
    }
}

fn link(side: &str, connection: &Connection) -> Link {
    let mut attributes = Attributes::default();
    attributes.text("weft.connection", side);
    Link {
        trace_id: connection.trace.to_vec(),
        span_id: connection.span.to_vec(),
        attributes: attributes.done(),
        ..Default::default()
    }
}

/// Somebody of whom only the address is known, where nothing else is.
fn who(known: Option<&Arc<Endpoint>>, at: Option<SocketAddr>) -> Arc<Endpoint> {
    let nobody = || {
        Arc::new(Endpoint {
            address: at.map_or_else(String::new, |at| at.ip().to_string()),
            ..Default::default()
        })
    };
    known.map_or_else(nobody, Arc::clone)
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
mod tests;
