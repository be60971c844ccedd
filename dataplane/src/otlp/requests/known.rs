//! Connections that Envoy has a part in, by their ends.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use weft_proto::wire::flow::v1::Endpoint;

use crate::flow::{EventKind, NamedEvent};
use crate::otlp::ids::{self, Role};

/// Connections that are remembered, about 200 bytes each; the oldest are forgotten first.
const MOST: usize = 65_536;
/// The kernel's clock and Envoy's are read one after the other.
const SLACK_NANOS: u64 = 50_000_000;

/// From whom, to whom.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// A connection, as far as requests need it.
pub(super) struct Connection {
    /// Of its spans.
    pub(super) trace: [u8; 16],
    /// Its span to link to: the client's, or the server's where nobody tells of the client.
    pub(super) span: [u8; 8],
    pub(super) source: Arc<Endpoint>,
    pub(super) destination: Arc<Endpoint>,
    /// Nanoseconds since 1970; `None`: as far as is known it is still open.
    closed: Option<u64>,
}

/// The newest connections.
#[derive(Default)]
pub(super) struct Known {
    by_ends: HashMap<Ends, Connection>,
    /// Each with its trace: another connection may have the same ends by now.
    order: VecDeque<(Ends, [u8; 16])>,
}

impl Known {
    /// Takes notice of what happened to a connection.
    pub(super) fn remember(&mut self, named: &NamedEvent) {
        let event = &named.event;
        let ends = (event.source, event.destination);
        match event.kind {
            EventKind::Open => self.insert(ends, named),
            EventKind::Close | EventKind::Expired => {
                if let Some(connection) = self.by_ends.get_mut(&ends) {
                    connection.closed = Some(named.time_unix_nano);
                }
            }
            _ => {}
        }
    }

    /// Open or just closed at that time, in nanoseconds since 1970.
    pub(super) fn at(&self, ends: Ends, time: u64) -> Option<&Connection> {
        let connection = self.by_ends.get(&ends)?;
        let is_over = connection
            .closed
            .is_some_and(|closed| closed + SLACK_NANOS < time);
        (!is_over).then_some(connection)
    }

    fn insert(&mut self, ends: Ends, named: &NamedEvent) {
        let trace = ids::trace_id(named, named.time_unix_nano);
        let is_from_pod = !named.source().pod.is_empty();
        let role = if is_from_pod {
            Role::Client
        } else {
            Role::Server
        };
        let connection = Connection {
            trace,
            span: ids::span_id(trace, role),
            source: Arc::clone(named.source()),
            destination: Arc::clone(named.destination()),
            closed: None,
        };
        self.by_ends.insert(ends, connection);
        self.order.push_back((ends, trace));
        while self.order.len() > MOST {
            if let Some((oldest, trace)) = self.order.pop_front()
                && self.by_ends.get(&oldest).is_some_and(|c| c.trace == trace)
            {
                self.by_ends.remove(&oldest);
            }
        }
    }
}
