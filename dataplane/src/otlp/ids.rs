//! Ids that every node makes alike from the connection itself, so that both ends are in one trace without a word between nodes.

use std::net::{IpAddr, SocketAddr};

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::flow::NamedEvent;

/// Connections without a sequence number of their own are told apart by when they began, as each node's clock has it.
const COARSE_SECONDS: u64 = 16;
const NANOS: u64 = 1_000_000_000;
/// Bytes of an address and a port.
const END: usize = 18;

/// Of which end a span tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// Who opened the connection.
    Client,
    /// Whom it was opened to.
    Server,
}

/// When the connection began, nanoseconds since 1970; where that is not known, when this was told.
pub(super) fn start_unix_nano(named: &NamedEvent) -> u64 {
    let (event, told) = (&named.event, named.time_unix_nano);
    match event.first_ns {
        0 => told,
        first => told.saturating_sub(event.time_ns.saturating_sub(first)),
    }
}

/// By ends, protocol and the SYN's sequence number.
pub(super) fn trace_id(named: &NamedEvent, start_unix_nano: u64) -> [u8; 16] {
    let event = &named.event;
    let number = match event.isn {
        0 => start_unix_nano / (COARSE_SECONDS * NANOS),
        isn => isn.into(),
    };
    let mut bytes = [0; 2 * END + 1 + 8];
    bytes[..END].copy_from_slice(&end(event.source));
    bytes[END..2 * END].copy_from_slice(&end(event.destination));
    bytes[2 * END] = event.protocol;
    bytes[2 * END + 1..].copy_from_slice(&number.to_be_bytes());
    // Zero stands for no trace.
    xxh3_128(&bytes).max(1).to_be_bytes()
}

fn end(at: SocketAddr) -> [u8; END] {
    let ip = match at.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; END];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&at.port().to_be_bytes());
    bytes
}

/// The span of a connection's end.
pub(super) fn span_id(trace: [u8; 16], role: Role) -> [u8; 8] {
    hash(trace, role, 0)
}

/// A span of something that happened at that end, at `time_ns`.
pub(super) fn moment_id(trace: [u8; 16], role: Role, time_ns: u64) -> [u8; 8] {
    hash(trace, role, time_ns.max(1))
}

fn hash(trace: [u8; 16], role: Role, time_ns: u64) -> [u8; 8] {
    let mut bytes = [0; 25];
    bytes[..16].copy_from_slice(&trace);
    bytes[16] = role as u8;
    bytes[17..].copy_from_slice(&time_ns.to_be_bytes());
    xxh3_64(&bytes).max(1).to_be_bytes()
}
