//! Frames as tests write them down. Checksums are zero: the programs leave those to the receiver.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const SCTP: u8 = 132;
pub const ICMP: u8 = 1;
pub const ICMP6: u8 = 58;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

const ETHERNET: usize = 14;
const ND_HOP_LIMIT: u8 = 255;

/// A packet in the making.
#[derive(Clone, Debug)]
pub struct Packet {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    transport: Vec<u8>,
    vlan: Vec<u16>,
    fragment: Option<(u32, u16, bool)>,
    extensions: Vec<(u8, Vec<u8>)>,
    hop_limit: u8,
}

fn address(text: &str) -> IpAddr {
    text.parse()
        .unwrap_or_else(|e| panic!("{text} is no address: {e}"))
}

fn endpoint(text: &str) -> SocketAddr {
    text.parse()
        .unwrap_or_else(|e| panic!("{text} is no address with port: {e}"))
}

/// A TCP segment without flags.
pub fn tcp(source: &str, destination: &str) -> Packet {
    let (source, destination) = (endpoint(source), endpoint(destination));
    let mut header = ports(source, destination);
    header.resize(20, 0);
    header[12] = 5 << 4;
    Packet::new(source.ip(), destination.ip(), TCP, header)
}

/// A UDP datagram with `payload`.
pub fn udp(source: &str, destination: &str, payload: &[u8]) -> Packet {
    let (source, destination) = (endpoint(source), endpoint(destination));
    let mut datagram = ports(source, destination);
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    Packet::new(source.ip(), destination.ip(), UDP, datagram)
}

/// An SCTP packet without chunks.
pub fn sctp(source: &str, destination: &str) -> Packet {
    let (source, destination) = (endpoint(source), endpoint(destination));
    let mut header = ports(source, destination);
    header.resize(12, 0);
    Packet::new(source.ip(), destination.ip(), SCTP, header)
}

/// An echo request.
pub fn ping(source: &str, destination: &str, identifier: u16) -> Packet {
    echo(source, destination, identifier, 8, 128)
}

/// An echo reply.
pub fn pong(source: &str, destination: &str, identifier: u16) -> Packet {
    echo(source, destination, identifier, 0, 129)
}

fn echo(source: &str, destination: &str, identifier: u16, v4: u8, v6: u8) -> Packet {
    let kind = if address(source).is_ipv4() { v4 } else { v6 };
    let mut packet = icmp(source, destination, kind);
    packet.transport[4..6].copy_from_slice(&identifier.to_be_bytes());
    packet
}

/// An ICMP or ICMPv6 message of this type, with an empty body.
pub fn icmp(source: &str, destination: &str, kind: u8) -> Packet {
    let (source, destination) = (address(source), address(destination));
    let protocol = if source.is_ipv4() { ICMP } else { ICMP6 };
    Packet::new(
        source,
        destination,
        protocol,
        vec![kind, 0, 0, 0, 0, 0, 0, 0],
    )
}

/// What a router answers when `about` is too big for its next link.
pub fn too_big(router: &str, about: &Packet) -> Packet {
    let kind = if about.source.is_ipv4() { 3 } else { 2 };
    let mut packet = icmp(router, &about.source.to_string(), kind);
    packet.transport.extend(about.ip());
    packet
}

/// Neighbour solicitation.
pub fn neighbour(source: &str, destination: &str) -> Packet {
    icmp(source, destination, 135).hop_limit(ND_HOP_LIMIT)
}

/// A packet of a protocol that is not looked into.
pub fn other(source: &str, destination: &str, protocol: u8) -> Packet {
    Packet::new(address(source), address(destination), protocol, vec![0; 20])
}

/// A frame that is no IP packet.
pub fn ethernet(destination: [u8; 6], protocol: u16) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend([0x02, 0, 0, 0, 0, 1]);
    frame.extend(protocol.to_be_bytes());
    frame.resize(60, 0);
    frame
}

fn ports(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    [
        source.port().to_be_bytes(),
        destination.port().to_be_bytes(),
    ]
    .concat()
}

impl Packet {
    fn new(source: IpAddr, destination: IpAddr, protocol: u8, transport: Vec<u8>) -> Self {
        Self {
            source,
            destination,
            protocol,
            transport,
            vlan: Vec::new(),
            fragment: None,
            extensions: Vec::new(),
            hop_limit: 64,
        }
    }

    /// TCP flags.
    pub fn flags(mut self, flags: u8) -> Self {
        self.transport[13] |= flags;
        self
    }

    /// A SYN with this sequence number.
    pub fn syn(self, sequence: u32) -> Self {
        self.flags(SYN).sequence(sequence)
    }

    /// An acknowledgment of all below `number`.
    pub fn ack(mut self, number: u32) -> Self {
        self.transport[8..12].copy_from_slice(&number.to_be_bytes());
        self.flags(ACK)
    }

    pub fn sequence(mut self, sequence: u32) -> Self {
        self.transport[4..8].copy_from_slice(&sequence.to_be_bytes());
        self
    }

    /// Bytes after the transport header.
    pub fn data(mut self, data: &[u8]) -> Self {
        self.transport.extend(data);
        self
    }

    /// An IEEE 802.1Q tag in the frame; the first one given is outermost.
    pub fn vlan(mut self, tag: u16) -> Self {
        self.vlan.push(tag);
        self
    }

    /// A fragment: `offset` in bytes, of what the packet is so far.
    pub fn fragment(mut self, id: u32, offset: u16, length: usize) -> Self {
        let begin = usize::from(offset);
        let more = begin + length < self.transport.len();
        let end = (begin + length).min(self.transport.len());
        self.transport = self.transport[begin..end].to_vec();
        self.fragment = Some((id, offset, more));
        self
    }

    /// An IPv6 extension header of 8 bytes and `more` times 8.
    pub fn extension(mut self, protocol: u8, more: u8) -> Self {
        let mut header = vec![0, more];
        header.resize(8 + 8 * usize::from(more), 0);
        self.extensions.push((protocol, header));
        self
    }

    pub fn hop_limit(mut self, hop_limit: u8) -> Self {
        self.hop_limit = hop_limit;
        self
    }

    /// Length of the IP packet.
    pub fn len(&self) -> u64 {
        self.ip().len() as u64
    }

    /// The whole frame.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1];
        for tag in &self.vlan {
            frame.extend(0x8100u16.to_be_bytes());
            frame.extend(tag.to_be_bytes());
        }
        let protocol: u16 = if self.source.is_ipv4() {
            0x0800
        } else {
            0x86dd
        };
        frame.extend(protocol.to_be_bytes());
        frame.extend(self.ip());
        frame
    }

    fn ip(&self) -> Vec<u8> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.ip4(source.octets(), destination.octets())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => self.ip6(source, destination),
            _ => panic!("both ends are of one family"),
        }
    }

    fn ip4(&self, source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let (id, offset, more) = self.fragment.unwrap_or_default();
        let length = 20 + self.transport.len() as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(length.to_be_bytes());
        packet.extend((id as u16).to_be_bytes());
        packet.extend(((offset / 8) | (u16::from(more) << 13)).to_be_bytes());
        packet.extend([self.hop_limit, self.protocol, 0, 0]);
        packet.extend(source);
        packet.extend(destination);
        packet.extend(&self.transport);
        packet
    }

    fn ip6(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let mut chain = self.extensions.clone();
        if let Some((id, offset, more)) = self.fragment {
            let mut header = vec![0, 0];
            header.extend((offset | u16::from(more)).to_be_bytes());
            header.extend(id.to_be_bytes());
            chain.push((44, header));
        }
        let kinds: Vec<u8> = chain.iter().map(|(kind, _)| *kind).collect();
        let after = kinds.iter().skip(1).chain([&self.protocol]);
        let mut payload = Vec::new();
        for ((_, header), next) in chain.iter().zip(after) {
            payload.push(*next);
            payload.extend(&header[1..]);
        }
        payload.extend(&self.transport);
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend((payload.len() as u16).to_be_bytes());
        packet.push(kinds.first().copied().unwrap_or(self.protocol));
        packet.push(self.hop_limit);
        packet.extend(source.octets());
        packet.extend(destination.octets());
        packet.extend(payload);
        packet
    }
}

/// The frame with one byte of its IP packet changed.
pub fn mangled(packet: &Packet, at: usize, byte: u8) -> Vec<u8> {
    let mut frame = packet.frame();
    frame[ETHERNET + at] = byte;
    frame
}

/// The frame cut off after so many bytes of its IP packet.
pub fn truncated(packet: &Packet, length: usize) -> Vec<u8> {
    packet.frame()[..ETHERNET + length].to_vec()
}
