//! What a frame is to whoever receives it. Strict where a receiver would be, and with no other memory than the frame.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{ARP, IPV4, IPV6, QINQ, VLAN, number};
use crate::connection::{Connection, Protocol};

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Something of a connection. For protocols without an entry in [`Protocol`], the one that stands for them.
    Of(Connection),
    /// A fragment after the first: whose it is stands in the first one.
    LaterFragment(IpAddr, IpAddr),
    /// How addresses on a link are found, and routers: no connection, and judged by no policy.
    Link,
}

/// Why a receiver would throw the frame away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPacket {
    /// Shorter than its headers say, or than they have to be.
    #[error("truncated, or lengths that contradict each other")]
    Malformed,
    /// Not IP, nor part of how IP works.
    #[error("EtherType {0:#06x}")]
    Foreign(u16),
}

/// Reads a frame.
///
/// # Errors
/// When it is no packet.
pub fn read(frame: &[u8]) -> Result<Meaning, NoPacket> {
    let mut rest = frame.get(12..).ok_or(NoPacket::Malformed)?;
    loop {
        let kind = be16(rest, 0)?;
        let body = &rest[2..];
        match kind {
            VLAN | QINQ => rest = body.get(2..).ok_or(NoPacket::Malformed)?,
            ARP => return Ok(Meaning::Link),
            IPV4 => return ipv4(body),
            IPV6 => return ipv6(body),
            other => return Err(NoPacket::Foreign(other)),
        }
    }
}

/// RFC 791.
fn ipv4(packet: &[u8]) -> Result<Meaning, NoPacket> {
    let first = byte(packet, 0)?;
    let header = usize::from(first & 15) * 4;
    let total = usize::from(be16(packet, 2)?);
    if first >> 4 != 4 || header < 20 || total < header || packet.len() < total {
        return Err(NoPacket::Malformed);
    }
    let address = |at: usize| {
        let octets: [u8; 4] = packet[at..at + 4].try_into().unwrap_or_default();
        IpAddr::V4(Ipv4Addr::from(octets))
    };
    let ends = (address(12), address(16));
    let fragment = be16(packet, 6)?;
    if fragment & 0x1fff != 0 {
        return Ok(Meaning::LaterFragment(ends.0, ends.1));
    }
    transport(Transport {
        ends,
        protocol: packet[9],
        payload: &packet[header..total],
        part: fragment & 0x2000 != 0,
        hop_limit: packet[8],
    })
}

/// RFC 8200.
fn ipv6(packet: &[u8]) -> Result<Meaning, NoPacket> {
    let length = usize::from(be16(packet, 4)?);
    if byte(packet, 0)? >> 4 != 6 || packet.len() < 40 + length {
        return Err(NoPacket::Malformed);
    }
    let address = |at: usize| {
        let octets: [u8; 16] = packet[at..at + 16].try_into().unwrap_or_default();
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let ends = (address(8), address(24));
    let mut next = packet[6];
    let mut rest = &packet[40..40 + length];
    let mut part = false;
    loop {
        let size = match next {
            number::HOP_BY_HOP | number::ROUTING | number::DESTINATION => {
                8 + 8 * usize::from(byte(rest, 1)?)
            }
            number::AUTHENTICATION => 8 + 4 * usize::from(byte(rest, 1)?),
            number::FRAGMENT => {
                let fragment = be16(rest, 2)?;
                part |= fragment & 1 != 0;
                if fragment & 0xfff8 != 0 {
                    return Ok(Meaning::LaterFragment(ends.0, ends.1));
                }
                8
            }
            _ => {
                return transport(Transport {
                    ends,
                    protocol: next,
                    payload: rest,
                    part,
                    hop_limit: packet[7],
                });
            }
        };
        next = byte(rest, 0)?;
        rest = rest.get(size..).ok_or(NoPacket::Malformed)?;
    }
}

/// What stands behind the IP headers.
struct Transport<'a> {
    ends: (IpAddr, IpAddr),
    protocol: u8,
    /// All of it, or its first fragment.
    payload: &'a [u8],
    part: bool,
    hop_limit: u8,
}

fn transport(transport: Transport<'_>) -> Result<Meaning, NoPacket> {
    let Transport {
        ends: (source, destination),
        protocol,
        payload,
        part,
        hop_limit,
    } = transport;
    let of = |protocol, ports: bool| {
        Ok(Meaning::Of(Connection {
            source,
            destination,
            protocol,
            source_port: if ports { be16(payload, 0)? } else { 0 },
            destination_port: if ports { be16(payload, 2)? } else { 0 },
        }))
    };
    let at_least = |length: usize| {
        if payload.len() < length {
            Err(NoPacket::Malformed)
        } else {
            Ok(())
        }
    };
    match protocol {
        number::TCP => {
            let header = usize::from(byte(payload, 12)? >> 4) * 4;
            at_least(if part { 20 } else { header.max(20) })?;
            if header < 20 {
                return Err(NoPacket::Malformed);
            }
            of(Protocol::Tcp, true)
        }
        number::UDP => {
            let length = usize::from(be16(payload, 4)?);
            at_least(8)?;
            if length < 8 || (!part && length > payload.len()) {
                return Err(NoPacket::Malformed);
            }
            of(Protocol::Udp, true)
        }
        number::SCTP => {
            at_least(12)?;
            of(Protocol::Sctp, true)
        }
        number::ICMP if source.is_ipv4() => {
            at_least(8)?;
            of(Protocol::Icmp, false)
        }
        number::ICMPV6 if source.is_ipv6() => {
            at_least(8)?;
            // Neighbour discovery (RFC 4861 7.1) and multicast listeners (RFC 3810 5), which no router forwards.
            match (payload[0], hop_limit) {
                (133..=137, 255) | (130..=132 | 143, 1) => Ok(Meaning::Link),
                _ => of(Protocol::Icmp, false),
            }
        }
        _ => of(Protocol::Gre, false),
    }
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, NoPacket> {
    bytes.get(at).copied().ok_or(NoPacket::Malformed)
}

fn be16(bytes: &[u8], at: usize) -> Result<u16, NoPacket> {
    match bytes.get(at..at + 2) {
        Some(&[high, low]) => Ok(u16::from_be_bytes([high, low])),
        _ => Err(NoPacket::Malformed),
    }
}
