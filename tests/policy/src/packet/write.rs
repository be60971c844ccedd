//! Ethernet frames.

use std::net::IpAddr;

use super::{IPV4, IPV6, number};
use crate::connection::{Connection, Protocol};

/// TCP flags, as in byte 13 of the header.
#[allow(missing_docs)]
pub mod flags {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
    pub const URG: u8 = 0x20;
}

/// What makes a TCP segment one of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tcp {
    /// [`flags`].
    pub flags: u8,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
}

/// The bytes of a frame.
pub type Wire = Vec<u8>;

/// Sequence number of the first packets.
const ISN: u32 = 1000;

/// What opens the connection: SYN, datagram, INIT, echo request, or a packet of whatever it is.
#[must_use]
pub fn first(connection: &Connection) -> Wire {
    let tcp = Tcp {
        flags: flags::SYN,
        sequence: ISN,
        acknowledgement: 0,
    };
    let payload = match connection.protocol {
        Protocol::Tcp => tcp_segment(connection, tcp),
        Protocol::Udp => udp_datagram(connection),
        Protocol::Sctp => sctp_chunk(connection, 1),
        Protocol::Icmp => echo(connection, true),
        Protocol::Gre => vec![0, 0, 0x08, 0, 0, 0, 0, 0],
    };
    packet(connection, &payload)
}

/// What answers [`first`]: SYN-ACK, datagram, INIT ACK, echo reply.
#[must_use]
pub fn reply(connection: &Connection) -> Wire {
    let back = connection.reversed();
    let tcp = Tcp {
        flags: flags::SYN | flags::ACK,
        sequence: 2 * ISN,
        acknowledgement: ISN + 1,
    };
    let payload = match connection.protocol {
        Protocol::Tcp => tcp_segment(&back, tcp),
        Protocol::Udp => udp_datagram(&back),
        Protocol::Sctp => sctp_chunk(&back, 2),
        Protocol::Icmp => echo(connection, false),
        Protocol::Gre => vec![0, 0, 0x08, 0, 0, 0, 0, 0],
    };
    packet(&back, &payload)
}

impl Tcp {
    /// What follows a SYN-ACK from the one who opened.
    #[must_use]
    pub const fn established() -> Self {
        Self {
            flags: flags::ACK,
            sequence: ISN + 1,
            acknowledgement: 2 * ISN + 1,
        }
    }

    /// What follows that from the one who answered.
    #[must_use]
    pub const fn answer() -> Self {
        Self {
            flags: flags::ACK,
            sequence: 2 * ISN + 1,
            acknowledgement: ISN + 1,
        }
    }

    /// As a frame from the source to the destination.
    #[must_use]
    pub fn frame(self, connection: &Connection) -> Wire {
        packet(connection, &tcp_segment(connection, self))
    }
}

/// A frame of the connection with this payload of IP.
fn packet(connection: &Connection, payload: &[u8]) -> Wire {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match (connection.source, connection.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend(IPV4.to_be_bytes());
            let length = (20 + payload.len()) as u16;
            let mut header = vec![0x45, 0];
            header.extend(length.to_be_bytes());
            header.extend([0, 1, 0x40, 0, 64, protocol_number(connection), 0, 0]);
            header.extend(source.octets());
            header.extend(destination.octets());
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend(header);
        }
        (source, destination) => {
            frame.extend(IPV6.to_be_bytes());
            frame.extend([0x60, 0, 0, 0]);
            frame.extend((payload.len() as u16).to_be_bytes());
            frame.extend([protocol_number(connection), 64]);
            for address in [source, destination] {
                if let IpAddr::V6(address) = address {
                    frame.extend(address.octets());
                }
            }
        }
    }
    frame.extend(payload);
    frame
}

/// IANA's, in the family of the connection's addresses.
#[must_use]
pub const fn protocol_number(connection: &Connection) -> u8 {
    match connection.protocol {
        Protocol::Tcp => number::TCP,
        Protocol::Udp => number::UDP,
        Protocol::Sctp => number::SCTP,
        Protocol::Icmp if connection.source.is_ipv4() => number::ICMP,
        Protocol::Icmp => number::ICMPV6,
        Protocol::Gre => number::GRE,
    }
}

fn ports(connection: &Connection) -> Vec<u8> {
    let mut bytes = connection.source_port.to_be_bytes().to_vec();
    bytes.extend(connection.destination_port.to_be_bytes());
    bytes
}

fn tcp_segment(connection: &Connection, tcp: Tcp) -> Vec<u8> {
    let mut segment = ports(connection);
    segment.extend(tcp.sequence.to_be_bytes());
    segment.extend(tcp.acknowledgement.to_be_bytes());
    segment.extend([0x50, tcp.flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment
}

fn udp_datagram(connection: &Connection) -> Vec<u8> {
    let mut datagram = ports(connection);
    datagram.extend([0, 12, 0, 0]);
    datagram.extend(b"ping");
    datagram
}

/// INIT (1) or INIT ACK (2) with its fixed part and no parameters.
fn sctp_chunk(connection: &Connection, kind: u8) -> Vec<u8> {
    let mut packet = ports(connection);
    packet.extend([0; 8]);
    packet.extend([kind, 0, 0, 20]);
    packet.extend([0, 0, 0, 1, 0, 0, 0x10, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
    packet
}

/// Its identifier is always the same: tests forget one connection before the next.
fn echo(connection: &Connection, request: bool) -> Vec<u8> {
    let kind = match (connection.source.is_ipv4(), request) {
        (true, true) => 8,
        (true, false) => 0,
        (false, true) => 128,
        (false, false) => 129,
    };
    vec![kind, 0, 0, 0, 0, 7, 0, 1]
}

fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}
