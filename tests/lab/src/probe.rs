//! What `weft-probe` prints, as types: the program writes them, tests read them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A server's answer to one line or datagram.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The request's text.
    pub id: String,
    /// The server's name.
    pub server: String,
    /// The address it was asked at; for UDP the one its socket is bound to.
    pub local: SocketAddr,
    /// The client's address as the server sees it.
    pub peer: SocketAddr,
    /// Requests this server process has answered, this one included.
    pub count: u64,
}

/// One request as the client saw it; one JSON line each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Name of the server that answered; none if none did.
    pub server: Option<String>,
    /// What went wrong; none if an answer came.
    pub error: Option<String>,
    /// The error's symbolic name, e.g. `ECONNREFUSED`; `EOF` when the peer closed, `TIMEOUT` when no answer came in time.
    pub errno: Option<String>,
    /// From before connect (or send, on an open connection) to the answer or error, in microseconds.
    pub elapsed_us: u64,
    /// What getpeername says; none without a connection.
    pub peer: Option<SocketAddr>,
    /// For UDP: the source address of the answer, as recvmsg tells it.
    pub from: Option<SocketAddr>,
    /// The client's own address.
    pub local: Option<SocketAddr>,
    /// The client's address as the server saw it.
    pub seen_as: Option<SocketAddr>,
    /// The address at which the server was reached.
    pub reached: Option<SocketAddr>,
}

impl Attempt {
    /// Whether an answer came.
    pub fn ok(&self) -> bool {
        self.server.is_some() && self.errno.is_none()
    }
}

/// How a held connection ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The first answer over the connection.
    pub first: Attempt,
    /// Whether it was broken before the time was over.
    pub broken: bool,
    /// Symbolic name of the error it was broken with; `EOF` for an orderly close.
    pub errno: Option<String>,
    /// CLOCK_MONOTONIC at the moment it was established, in nanoseconds.
    pub since_ns: u64,
    /// CLOCK_MONOTONIC at the moment it was broken, in nanoseconds; none if it was not.
    pub broken_ns: Option<u64>,
    /// Further requests answered on it.
    pub answered: u64,
}

/// The sum of a load run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Requests made.
    pub requests: u64,
    /// Those without an answer.
    pub failed: u64,
    /// Failed requests by symbolic error name.
    pub errors: BTreeMap<String, u64>,
    /// Answered requests by server name.
    pub by_server: BTreeMap<String, u64>,
    /// Connections made (with open connections: one for each worker, more if they broke).
    pub connects: u64,
    /// Milliseconds the run took.
    pub elapsed_ms: u64,
    /// Latency of answered requests, microseconds: median.
    pub p50_us: u64,
    /// Latency of answered requests, microseconds: 99th percentile.
    pub p99_us: u64,
    /// Latency of answered requests, microseconds: the longest.
    pub max_us: u64,
}

/// One line of a load run's log: one connect (or one datagram exchange) and where it landed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landing {
    /// CLOCK_MONOTONIC before connect, nanoseconds.
    pub begin_ns: u64,
    /// CLOCK_MONOTONIC when the answer or error came, nanoseconds.
    pub end_ns: u64,
    /// The server that answered.
    pub server: Option<String>,
    /// The error otherwise, by symbolic name.
    pub errno: Option<String>,
}

/// CLOCK_MONOTONIC now, in nanoseconds: comparable between processes of one machine.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(now.tv_nsec).unwrap_or_default();
    seconds * 1_000_000_000 + nanos
}
