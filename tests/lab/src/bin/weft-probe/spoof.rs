//! Packets that say they come from somewhere else: written byte by byte, past everything the kernel would put right.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with,
};

const TCP: u8 = 6;
const UDP: u8 = 17;
const HOP_LIMIT: u8 = 64;
const SYN: u8 = 0x02;
/// Text of a datagram; a server takes it for a request.
const TEXT: &[u8] = b"spoofed";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Source that the packets claim
    #[arg(value_name = "ADDR:PORT")]
    from: SocketAddr,
    /// Where they go
    #[arg(value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// A datagram instead of a SYN
    #[arg(long)]
    udp: bool,
    /// How many
    #[arg(long, default_value_t = 1)]
    count: u32,
    /// From how many ports, one after the other
    #[arg(long, default_value_t = 1)]
    ports: u16,
}

pub(crate) fn run(args: &Args) -> io::Result<()> {
    let family = match args.to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    // With this protocol the IP header is part of what is sent.
    let raw = SocketType::RAW;
    let socket = socket_with(family, raw, SocketFlags::CLOEXEC, Some(ipproto::RAW))?;
    // A raw IPv6 socket takes the port for a protocol.
    let to = SocketAddr::new(args.to.ip(), 0);
    let last = args
        .from
        .port()
        .saturating_add(args.ports.saturating_sub(1));
    let ports = (args.from.port()..=last).cycle();
    for port in ports.take(args.count as usize) {
        let packet = packet(SocketAddr::new(args.from.ip(), port), args.to, args.udp)?;
        sendto(&socket, &packet, SendFlags::empty(), &to)?;
    }
    Ok(())
}

fn packet(from: SocketAddr, to: SocketAddr, udp: bool) -> io::Result<Vec<u8>> {
    let (protocol, segment) = if udp {
        (UDP, datagram(from, to)?)
    } else {
        (TCP, syn(from, to)?)
    };
    let mut packet = header(from.ip(), to.ip(), protocol, length(&segment)?)?;
    packet.extend(segment);
    Ok(packet)
}

/// The IP header. The kernel fills in IPv4's length and checksum.
fn header(from: IpAddr, to: IpAddr, protocol: u8, length: u16) -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            header.extend([0x45, 0, 0, 0, 0, 0, 0, 0, HOP_LIMIT, protocol, 0, 0]);
            header.extend(from.octets());
            header.extend(to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let [high, low] = length.to_be_bytes();
            header.extend([0x60, 0, 0, 0, high, low, protocol, HOP_LIMIT]);
            header.extend(from.octets());
            header.extend(to.octets());
        }
        _ => return Err(io::Error::other("one address is IPv4, the other IPv6")),
    }
    Ok(header)
}

fn datagram(from: SocketAddr, to: SocketAddr) -> io::Result<Vec<u8>> {
    const CHECKSUM_AT: usize = 6;
    let mut bytes = ports(from, to);
    bytes.extend(length(TEXT)?.saturating_add(8).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(TEXT);
    sealed(bytes, CHECKSUM_AT, from, to, UDP)
}

fn syn(from: SocketAddr, to: SocketAddr) -> io::Result<Vec<u8>> {
    const CHECKSUM_AT: usize = 16;
    const HEADER_WORDS: u8 = 5;
    let mut bytes = ports(from, to);
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, HEADER_WORDS << 4, SYN, 0xff, 0xff]);
    bytes.extend([0, 0, 0, 0]);
    sealed(bytes, CHECKSUM_AT, from, to, TCP)
}

fn ports(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    [from.port().to_be_bytes(), to.port().to_be_bytes()].concat()
}

/// With its checksum, over the pseudo-header too.
fn sealed(
    mut segment: Vec<u8>,
    checksum_at: usize,
    from: SocketAddr,
    to: SocketAddr,
    protocol: u8,
) -> io::Result<Vec<u8>> {
    let mut covered = Vec::new();
    for address in [from.ip(), to.ip()] {
        match address {
            IpAddr::V4(v4) => covered.extend(v4.octets()),
            IpAddr::V6(v6) => covered.extend(v6.octets()),
        }
    }
    covered.extend([0, protocol]);
    covered.extend(length(&segment)?.to_be_bytes());
    covered.extend(&segment);
    let sum = checksum(&covered).to_be_bytes();
    segment.splice(checksum_at..checksum_at + sum.len(), sum);
    Ok(segment)
}

fn length(bytes: &[u8]) -> io::Result<u16> {
    u16::try_from(bytes.len()).map_err(io::Error::other)
}

/// The Internet checksum.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes), !0xddf2);
    }

    #[test]
    fn a_packet_has_its_addresses_and_a_checksum_that_fits() {
        let from = "10.0.0.1:1000".parse().unwrap();
        let to = "10.0.0.2:53".parse().unwrap();
        let packet = packet(from, to, true).unwrap();
        assert_eq!(packet.len(), 20 + 8 + TEXT.len());
        assert_eq!(packet[12..20], [10, 0, 0, 1, 10, 0, 0, 2]);
        let udp_length = u8::try_from(8 + TEXT.len()).unwrap();
        let covered = [&packet[12..20], &[0, UDP, 0, udp_length], &packet[20..]].concat();
        assert_eq!(checksum(&covered), 0);
    }

    #[test]
    fn families_do_not_mix() {
        let from = "10.0.0.1:1000".parse().unwrap();
        assert!(packet(from, "[fd00::1]:53".parse().unwrap(), false).is_err());
    }
}
