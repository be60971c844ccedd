//! The maps' bytes, written and read. Layouts are those of the skeleton.

use std::mem::offset_of;
use std::net::IpAddr;

use crate::skel::types;

pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub fn mapped(address: &str) -> [u8; 16] {
    match address.parse::<IpAddr>().unwrap() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// A `struct sweep`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    pub swept: u32,
    pub expired: u32,
    pub revoked: u32,
    pub unread: u32,
    /// Seconds until an entry is due, rounded up.
    pub due: Option<u64>,
}

impl Swept {
    pub fn read(bytes: &[u8]) -> Self {
        let due_ns = u64_at(bytes, offset_of!(types::sweep, due_ns));
        Self {
            swept: u32_at(bytes, offset_of!(types::sweep, swept)),
            expired: u32_at(bytes, offset_of!(types::sweep, expired)),
            revoked: u32_at(bytes, offset_of!(types::sweep, revoked)),
            unread: u32_at(bytes, offset_of!(types::sweep, unread)),
            due: (due_ns < i64::MAX as u64).then(|| due_ns.div_ceil(1_000_000_000)),
        }
    }
}

/// What tests look at of a `struct flow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    pub state: u32,
    pub flags: u32,
    pub reason: u32,
    pub bytes: [u64; 2],
    pub packets: [u64; 2],
    pub epoch: [u32; 2],
    pub interface: [u32; 2],
    pub identity: [u32; 2],
    pub rule: [u32; 2],
    pub service: u32,
    pub retransmits: u32,
}

impl Flow {
    pub fn read(bytes: &[u8]) -> Self {
        let pair = |at| [u32_at(bytes, at), u32_at(bytes, at + 4)];
        let ends = [
            offset_of!(types::flow, end_0),
            offset_of!(types::flow, end_1),
        ];
        Self {
            state: u32::from(bytes[offset_of!(types::flow, state)]),
            flags: u32::from(bytes[offset_of!(types::flow, flags)]),
            reason: u32::from(bytes[offset_of!(types::flow, reason)]),
            bytes: ends.map(|end| u64_at(bytes, end + offset_of!(types::flow_end, bytes))),
            packets: ends.map(|end| u64_at(bytes, end + offset_of!(types::flow_end, packets))),
            epoch: pair(offset_of!(types::flow, epoch)),
            interface: pair(offset_of!(types::flow, interface)),
            identity: pair(offset_of!(types::flow, identity)),
            rule: pair(offset_of!(types::flow, rule)),
            service: u32_at(bytes, offset_of!(types::flow, service)),
            retransmits: u32_at(bytes, offset_of!(types::flow, retransmits)),
        }
    }

    pub fn is(&self, state: types::flow_state) -> bool {
        self.state == state.0
    }
}

/// What tests look at of a `struct event`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: u32,
    pub verdict: u32,
    pub reason: u32,
    pub direction: u32,
    pub source: [u8; 16],
    pub destination: [u8; 16],
    pub source_port: u16,
    pub destination_port: u16,
    pub protocol: u8,
    pub bytes: [u64; 2],
    pub packets: [u64; 2],
    pub identities: [u32; 2],
    pub rule: u32,
    pub audit: u32,
    pub interface: u32,
    pub tcp_flags: u8,
}

impl Event {
    pub fn read(bytes: &[u8]) -> Self {
        let byte = |at: usize| bytes[at];
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let address = |at: usize| bytes[at..at + 16].try_into().unwrap();
        let long_pair = |at| [u64_at(bytes, at), u64_at(bytes, at + 8)];
        Self {
            kind: u32::from(byte(offset_of!(types::event, r#type))),
            verdict: u32::from(byte(offset_of!(types::event, verdict))),
            reason: u32::from(byte(offset_of!(types::event, reason))),
            direction: u32::from(byte(offset_of!(types::event, direction))),
            source: address(offset_of!(types::event, source)),
            destination: address(offset_of!(types::event, destination)),
            source_port: port(offset_of!(types::event, source_port)),
            destination_port: port(offset_of!(types::event, destination_port)),
            protocol: byte(offset_of!(types::event, protocol)),
            bytes: long_pair(offset_of!(types::event, bytes)),
            packets: long_pair(offset_of!(types::event, packets)),
            identities: [
                u32_at(bytes, offset_of!(types::event, source_identity)),
                u32_at(bytes, offset_of!(types::event, destination_identity)),
            ],
            rule: u32_at(bytes, offset_of!(types::event, rule)),
            audit: u32_at(bytes, offset_of!(types::event, audit)),
            interface: u32_at(bytes, offset_of!(types::event, interface)),
            tcp_flags: byte(offset_of!(types::event, tcp_flags)),
        }
    }
}
