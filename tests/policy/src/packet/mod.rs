//! Packets: written from what is meant, and read as their receiver would.

mod read;
mod write;

pub use read::{Meaning, NoPacket, read};
pub use write::{Tcp, Wire, first, flags, protocol_number, reply};

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherType of a VLAN tag.
pub const VLAN: u16 = 0x8100;
/// EtherType of an outer VLAN tag.
pub const QINQ: u16 = 0x88a8;

/// IANA protocol numbers.
#[allow(missing_docs)]
pub mod number {
    pub const HOP_BY_HOP: u8 = 0;
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const GRE: u8 = 47;
    pub const AUTHENTICATION: u8 = 51;
    pub const ICMPV6: u8 = 58;
    pub const DESTINATION: u8 = 60;
    pub const SCTP: u8 = 132;
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::connection::{Connection, Protocol};

    fn connection(protocol: Protocol, addresses: (&str, &str)) -> Connection {
        let port = |n| if protocol.has_ports() { n } else { 0 };
        Connection {
            source: addresses.0.parse().unwrap(),
            destination: addresses.1.parse().unwrap(),
            protocol,
            source_port: port(4000),
            destination_port: port(80),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        for addresses in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            for protocol in Protocol::ALL {
                let connection = connection(protocol, addresses);
                let frame = first(&connection);
                assert_eq!(read(&frame), Ok(Meaning::Of(connection.clone())));
                let Ok(Meaning::Of(back)) = read(&reply(&connection)) else {
                    panic!("{connection}");
                };
                assert_eq!(back.destination, connection.source);
                assert_eq!(back.destination_port, connection.source_port);
                for length in 0..frame.len() {
                    assert_eq!(read(&frame[..length]), Err(NoPacket::Malformed), "{length}");
                }
            }
        }
    }

    #[test]
    fn a_checksum_known_from_elsewhere() {
        // RFC 1071's own check: the sum over a header with its checksum is 0xffff.
        let frame = first(&connection(Protocol::Udp, ("10.0.0.1", "10.0.0.2")));
        let sum: u32 = frame[14..34]
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
}
