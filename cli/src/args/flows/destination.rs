//! `TO[:PORT][/PROTOCOL]`.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

const PROTOCOLS: [&str; 4] = ["tcp", "udp", "sctp", "icmp"];

/// Where a connection is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// "namespace/name" or an address.
    pub(crate) place: String,
    /// 0: not given.
    pub(crate) port: u16,
    /// Empty: not given.
    pub(crate) protocol: String,
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, protocol) = split_protocol(text);
        let (place, port) = split_port(rest)?;
        if place.parse::<IpAddr>().is_err() && !place.contains('/') {
            return Err(format!(
                "{place:?} is no place: give NAMESPACE/POD, NAMESPACE/SERVICE or an address"
            ));
        }
        Ok(Self {
            place: place.to_owned(),
            port,
            protocol: protocol.to_owned(),
        })
    }
}

/// "shop/udp" is a pod named udp: a protocol only follows what is a place already.
fn split_protocol(text: &str) -> (&str, &str) {
    match text.rsplit_once('/') {
        Some((rest, protocol)) if PROTOCOLS.contains(&protocol) && is_place(rest) => {
            (rest, protocol)
        }
        _ => (text, ""),
    }
}

fn is_place(text: &str) -> bool {
    text.contains('/') || split_port(text).is_ok_and(|(place, _)| place.parse::<IpAddr>().is_ok())
}

fn split_port(text: &str) -> Result<(&str, u16), String> {
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok((text, 0));
    }
    let (place, port) = match text.rsplit_once(':') {
        Some((place, port)) => (place, Some(port)),
        None => (text, None),
    };
    let place = place
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
        .unwrap_or(place);
    let port = match port {
        None => 0,
        Some(port) => match port.parse() {
            Ok(port) if port != 0 => port,
            _ => return Err(format!("{port:?} is no port: give 1 to 65535")),
        },
    };
    Ok((place, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Result<(String, u16, String), String> {
        let destination: Destination = text.parse()?;
        Ok((destination.place, destination.port, destination.protocol))
    }

    #[test]
    fn places_ports_and_protocols() {
        for (text, place, port, protocol) in [
            ("shop/cart", "shop/cart", 0, ""),
            ("shop/cart:8080", "shop/cart", 8080, ""),
            ("shop/cart:53/udp", "shop/cart", 53, "udp"),
            ("shop/cart/icmp", "shop/cart", 0, "icmp"),
            ("shop/udp", "shop/udp", 0, ""),
            ("shop/udp/udp", "shop/udp", 0, "udp"),
            ("10.0.0.1", "10.0.0.1", 0, ""),
            ("10.0.0.1:80/tcp", "10.0.0.1", 80, "tcp"),
            ("10.0.0.1/icmp", "10.0.0.1", 0, "icmp"),
            ("fd00::1", "fd00::1", 0, ""),
            ("fd00::1/icmp", "fd00::1", 0, "icmp"),
            ("[fd00::1]:80", "fd00::1", 80, ""),
        ] {
            let expected = (place.to_owned(), port, protocol.to_owned());
            assert_eq!(parts(text), Ok(expected), "{text}");
        }
        for text in [
            "cart",
            "shop/cart:0",
            "shop/cart:http",
            "shop/cart:70000",
            "",
        ] {
            assert!(parts(text).is_err(), "{text}");
        }
    }
}
