//! `struct event` of bpf/include/abi/event.h as the agent thinks of it.

use std::net::{IpAddr, SocketAddr};

use super::Reason;
use crate::bpf::types;
use crate::tables::address;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A connection was let through and answered.
    Open,
    /// It ended.
    Close,
    /// It was refused.
    Denied,
    /// It was let through, though an audited policy would have refused it.
    Audited,
    /// It was too old.
    Expired,
    /// A backend was taken out of its service.
    Ejected,
    /// And is back.
    Returned,
    /// A burst of segments that were sent again is over.
    Retransmitted,
}

impl EventKind {
    fn from_raw(raw: u8) -> Option<Self> {
        Some(match types::event_type(raw.into()) {
            types::event_type::EVENT_OPEN => Self::Open,
            types::event_type::EVENT_CLOSE => Self::Close,
            types::event_type::EVENT_DENIED => Self::Denied,
            types::event_type::EVENT_AUDITED => Self::Audited,
            types::event_type::EVENT_EXPIRED => Self::Expired,
            types::event_type::EVENT_EJECTED => Self::Ejected,
            types::event_type::EVENT_RETURNED => Self::Returned,
            types::event_type::EVENT_RETRANSMITTED => Self::Retransmitted,
            _ => return None,
        })
    }

    /// One word, for programs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Close => "close",
            Self::Denied => "denied",
            Self::Audited => "audited",
            Self::Expired => "expired",
            Self::Ejected => "ejected",
            Self::Returned => "returned",
            Self::Retransmitted => "retrans",
        }
    }
}

/// Where it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// As it left the local pod that is its source.
    Egress,
    /// As it reached the local pod that is its destination.
    Ingress,
}

impl Direction {
    fn from_raw(raw: u8) -> Option<Self> {
        match types::direction(raw.into()) {
            types::direction::DIRECTION_EGRESS => Some(Self::Egress),
            types::direction::DIRECTION_INGRESS => Some(Self::Ingress),
            _ => None,
        }
    }

    /// One word, for programs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Egress => "egress",
            Self::Ingress => "ingress",
        }
    }
}

/// Something that happened to a connection. Source is who opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Of the connection's first packet; 0: not known.
    pub first_ns: u64,
    /// ICMP echo has its identifier as both ports.
    pub source: SocketAddr,
    /// As `source`.
    pub destination: SocketAddr,
    /// What connect() was called with, where that was a service's address.
    pub vip: Option<SocketAddr>,
    /// `IPPROTO_*`.
    pub protocol: u8,
    /// Sent by source, by destination.
    pub bytes: [u64; 2],
    /// As `bytes`.
    pub packets: [u64; 2],
    /// 0: unknown.
    pub source_identity: u32,
    /// 0: unknown.
    pub destination_identity: u32,
    /// Id of the rule that decided; 0: none did.
    pub rule: u32,
    /// Id of the audited rule that would have refused; 0: none.
    pub audit: u32,
    /// 0: none, or not known.
    pub service: u32,
    /// 0: none, or not known.
    pub backend: u32,
    /// 0: unknown.
    pub rtt_us: u32,
    /// TCP segments sent again: of the connection, or of a burst.
    pub retransmits: u32,
    /// When the burst began, as `time_ns` is when it ended; 0 of all else.
    pub burst_ns: u64,
    /// `None`: neither, as at connect().
    pub direction: Option<Direction>,
    /// Whether it was let through.
    pub allowed: bool,
    /// Why.
    pub reason: Reason,
    /// Of a refused TCP packet, as in the header's byte 13.
    pub tcp_flags: u8,
    /// TCP: sequence number of the SYN, by which all nodes know the connection; 0: not known.
    pub isn: u32,
    /// Some of its bytes, or all, went from socket to socket.
    pub accelerated: bool,
    /// It goes to the node's Envoy, or was opened by it.
    pub proxied: bool,
}

impl Event {
    /// `None`: a kind of event that this version does not know.
    pub(crate) fn from_raw(raw: &types::event) -> Option<Self> {
        let vip = socket(raw.vip, raw.vip_port);
        let destination = socket(raw.destination, raw.destination_port);
        Some(Self {
            kind: EventKind::from_raw(raw.r#type)?,
            time_ns: raw.time_ns,
            first_ns: raw.first_ns,
            source: socket(raw.source, raw.source_port),
            // What connect() refuses gets no further than the service.
            destination: if is_unset(destination.ip()) {
                vip
            } else {
                destination
            },
            vip: (!is_unset(vip.ip())).then_some(vip),
            protocol: raw.protocol,
            bytes: raw.bytes,
            packets: raw.packets,
            source_identity: raw.source_identity,
            destination_identity: raw.destination_identity,
            rule: raw.rule,
            audit: raw.audit,
            service: raw.service,
            backend: raw.backend,
            rtt_us: raw.rtt_us,
            retransmits: raw.retransmits,
            burst_ns: raw.burst_ns,
            direction: Direction::from_raw(raw.direction),
            allowed: u32::from(raw.verdict) == types::verdict::VERDICT_ALLOW.0,
            reason: Reason::from_raw(raw.reason),
            tcp_flags: raw.tcp_flags,
            isn: raw.isn,
            accelerated: u32::from(raw.path) == types::flow_path::PATH_ACCELERATED.0,
            proxied: u32::from(raw.proxy) != types::flow_proxy::PROXY_NONE.0,
        })
    }
}

/// An address and a port in network order.
pub(crate) fn socket(raw: types::weft_addr, port: u16) -> SocketAddr {
    SocketAddr::new(address::from_raw(raw), u16::from_be(port))
}

/// Sixteen zero bytes stand for no address.
pub(super) fn is_unset(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_the_kernel_wrote_it() {
        let raw = types::event {
            time_ns: 7,
            source: address::to_raw([10, 0, 0, 1].into()),
            source_port: 40_000_u16.to_be(),
            destination: address::to_raw("fd00::1".parse().expect("address")),
            destination_port: 80_u16.to_be(),
            r#type: types::event_type::EVENT_DENIED.0 as u8,
            direction: types::direction::DIRECTION_INGRESS.0 as u8,
            verdict: types::verdict::VERDICT_DENY.0 as u8,
            reason: types::reason::REASON_ISOLATED.0 as u8,
            ..Default::default()
        };
        let event = Event::from_raw(&raw).expect("a known kind");
        assert_eq!(event.kind, EventKind::Denied);
        assert_eq!(event.source.to_string(), "10.0.0.1:40000");
        assert_eq!(event.destination.to_string(), "[fd00::1]:80");
        assert_eq!((event.vip, event.allowed), (None, false));
        assert_eq!(event.direction, Some(Direction::Ingress));
        assert_eq!(event.reason, Reason::REASON_ISOLATED);
        let strange = types::event { r#type: 200, ..raw };
        assert_eq!(Event::from_raw(&strange), None);
    }
}
