//! What the bench asks of a load client, and what it gets back: one JSON object
//! per line each way.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use serde::{Deserialize, Serialize};

/// `count` consecutive IPv4 addresses from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The lowest address.
    pub first: Ipv4Addr,
    /// How many addresses; at least 1.
    pub count: u32,
}

impl Range {
    /// A range of one address.
    pub fn one(first: Ipv4Addr) -> Self {
        Self { first, count: 1 }
    }

    /// The address `index` places above the first one.
    pub fn nth(&self, index: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first.to_bits().wrapping_add(index))
    }

    /// Whether `address` is one of these.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        address.to_bits().wrapping_sub(self.first.to_bits()) < self.count
    }

    /// One of the addresses, all equally likely.
    pub fn pick(&self, random: &mut fastrand::Rng) -> Ipv4Addr {
        self.nth(random.u32(0..self.count.max(1)))
    }
}

/// The addresses a job connects to: one range after the other is equally likely,
/// and so is each address within it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Targets {
    /// At least one.
    pub ranges: Vec<Range>,
    /// TCP port, host byte order.
    pub port: u16,
}

impl Targets {
    /// Picks the address of the next connection.
    pub fn pick(&self, random: &mut fastrand::Rng) -> Option<SocketAddr> {
        let range = self.ranges.get(random.usize(0..self.ranges.len().max(1)))?;
        Some(SocketAddrV4::new(range.pick(random), self.port).into())
    }
}

/// One order to a load client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job {
    /// Opens connections as fast as it can.
    Connections(Connections),
    /// Sends requests over connections that stay open.
    Requests(Requests),
    /// Sends HTTP requests at a constant rate.
    Paced(Paced),
    /// Connects until it lands on a given backend.
    Landing(Landing),
    /// Exchanges messages over sockets that do not block.
    Polled(Polled),
    /// Exchanges messages over sockets that block.
    Blocking(Blocking),
}

/// Connect, one request, one answer, close by RST; again and again.
///
/// RST instead of FIN keeps TIME_WAIT out of the client's port space, which would
/// otherwise run dry within seconds and measure nothing but the search for ports.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Connections {
    /// Where to.
    pub targets: Targets,
    /// Source addresses, picked at random per connection.
    pub sources: Range,
    /// Parallel connections.
    pub threads: usize,
    /// Length in milliseconds.
    pub millis: u64,
}

/// Requests and answers, one at a time per thread, over its own connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Requests {
    /// Where to.
    pub targets: Targets,
    /// The backends that count: connections that land elsewhere are opened anew.
    pub backends: Range,
    /// Open connections, with one thread each.
    pub threads: usize,
    /// Cores to use, at most the server's threads. Client thread `i` keeps to core `i`
    /// modulo this, and to connections that the server's thread on that core has taken.
    pub cores: u8,
    /// Length in milliseconds.
    pub millis: u64,
}

/// HTTP requests that are due at a constant rate, over connections that stay open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Paced {
    /// Where to.
    pub target: SocketAddr,
    /// Path of the request.
    pub path: String,
    /// Requests per second, all connections together.
    pub per_second: f64,
    /// Open connections, with one thread each.
    pub connections: usize,
    /// Length in milliseconds.
    pub millis: u64,
    /// How long connect, send and receive may each take, milliseconds.
    pub timeout_ms: u64,
}

/// Connects once every `every_us` until an answer comes from `backend`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Landing {
    /// Where to.
    pub targets: Targets,
    /// The backend to wait for; `None`: any.
    pub backend: Option<Ipv4Addr>,
    /// Pause between two connects, microseconds.
    pub every_us: u64,
    /// Give up after this many milliseconds.
    pub timeout_ms: u64,
}

/// Messages over connections whose ends both poll (epoll), to a server of [`super::polled`]. One thread for each core that is used; both
/// ends of a connection keep to one core where messages are answered, and to different ones where they are not: whether a wake-up
/// crosses cores is luck.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Polled {
    /// Where to.
    pub target: SocketAddr,
    /// Bytes of a message, and of its answer.
    pub size: u32,
    /// Each message is answered, and the next one sent after that; else they are sent as fast as they go.
    pub answered: bool,
    /// `TCP_NODELAY` of the client's sockets.
    pub nodelay: bool,
    /// Open connections.
    pub connections: usize,
    /// Cores to use, at most the server's threads.
    pub cores: u8,
    /// Length in milliseconds.
    pub millis: u64,
}

/// Messages and answers over connections whose ends both block, to a server of [`super::blocking`]; one thread for each. Both ends of
/// a connection keep to one core.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Blocking {
    /// Where to.
    pub target: SocketAddr,
    /// Bytes of a message, and of its answer.
    pub size: u32,
    /// Open connections.
    pub connections: usize,
    /// Cores to use.
    pub cores: u8,
    /// Length in milliseconds.
    pub millis: u64,
}

/// Spread of the single samples of one job, microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    #[serde(default)]
    pub p999_us: f64,
}

/// The answer to a [`Job`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// Of [`Job::Connections`], [`Job::Requests`], [`Job::Paced`], [`Job::Polled`] and [`Job::Blocking`].
    Rate {
        /// Completed connections or requests per second.
        per_second: f64,
        /// Of a whole connection, or of one request.
        latency: Latency,
        /// Connections or requests that failed.
        failed: u64,
    },
    /// Of [`Job::Landing`]: when the connect that landed had been established, in
    /// nanoseconds of `CLOCK_MONOTONIC`; `None`: timed out.
    Landed(Option<u64>),
    /// The job could not be done at all.
    Failed(String),
}
