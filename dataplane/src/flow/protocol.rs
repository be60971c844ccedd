//! IP protocols and TCP flags in words.

use std::fmt::Write;

use weft_proto::model::Protocol;

/// `IPPROTO_*`, from IANA's registry of protocol numbers.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const SCTP: u8 = 132;

const WORDS: [(u8, &str); 5] = [
    (ICMP, "icmp"),
    (TCP, "tcp"),
    (UDP, "udp"),
    (ICMPV6, "icmpv6"),
    (SCTP, "sctp"),
];

/// Bits of byte 13 of the TCP header (RFC 9293 3.1, RFC 3168 6.1), lowest first.
const TCP_FLAGS: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];

/// For programs: a name in lower case, or IANA's number.
pub(crate) fn word(protocol: u8) -> String {
    let known = WORDS.iter().find(|(number, _)| *number == protocol);
    known.map_or_else(|| protocol.to_string(), |(_, word)| (*word).to_owned())
}

/// The number of [`word`], if there is such a protocol.
pub(crate) fn number(word: &str) -> Option<u8> {
    let known = WORDS.iter().find(|(_, known)| *known == word);
    known.map(|(number, _)| *number)
}

/// IANA's number.
pub(crate) const fn of(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => TCP,
        Protocol::Udp => UDP,
    }
}

/// For people: "TCP 8080", "ICMP", "protocol 47".
pub(crate) fn with_port(protocol: u8, port: u16) -> String {
    match protocol {
        TCP => format!("TCP {port}"),
        UDP => format!("UDP {port}"),
        SCTP => format!("SCTP {port}"),
        ICMP => "ICMP".to_owned(),
        ICMPV6 => "ICMPv6".to_owned(),
        other => format!("protocol {other}"),
    }
}

/// "SYN,ACK"; empty where none is set.
pub(crate) fn tcp_flags(flags: u8) -> String {
    let mut text = String::new();
    let set = TCP_FLAGS
        .iter()
        .enumerate()
        .filter(|(bit, _)| flags & (1 << bit) != 0);
    for (_, name) in set {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing into a string cannot fail.
        let _ = write!(text, "{comma}{name}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
        assert_eq!(word(TCP), "tcp");
        assert_eq!(word(47), "47");
        assert_eq!(number("icmpv6"), Some(ICMPV6));
        assert_eq!(number("TCP"), None);
        assert_eq!(with_port(UDP, 53), "UDP 53");
        assert_eq!(with_port(47, 0), "protocol 47");
    }

    #[test]
    fn flags_in_the_order_of_their_bits() {
        assert_eq!(tcp_flags(0b1_0010), "SYN,ACK");
        assert_eq!(tcp_flags(0), "");
        assert_eq!(tcp_flags(0b1_0100), "RST,ACK");
    }
}
