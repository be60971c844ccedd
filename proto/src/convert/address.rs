//! `envoy.config.core.v3.Address`.

use std::net::{IpAddr, SocketAddr};

use envoy_types::pb::envoy::config::core::v3::{
    Address, SocketAddress, address::Address as Kind, socket_address,
};

use super::ConvertError;
use crate::model::Protocol;

pub(super) fn encode(ip: IpAddr, port: u16, protocol: Protocol) -> Address {
    Address {
        address: Some(Kind::SocketAddress(SocketAddress {
            protocol: match protocol {
                Protocol::Tcp => socket_address::Protocol::Tcp,
                Protocol::Udp => socket_address::Protocol::Udp,
            } as i32,
            address: ip.to_string(),
            port_specifier: Some(socket_address::PortSpecifier::PortValue(port.into())),
            ..Default::default()
        })),
    }
}

/// A literal address with a port from 1 to 65535, and the protocol field (which Envoy ignores for endpoints).
pub(super) fn decode(address: Option<&Address>) -> Result<(SocketAddr, Protocol), ConvertError> {
    let Some(Kind::SocketAddress(socket)) = address.and_then(|a| a.address.as_ref()) else {
        return Err(ConvertError::new(
            "address",
            "must be a socket_address with a literal IP",
        ));
    };
    let ip: IpAddr = socket.address.parse().map_err(|_| {
        ConvertError::new(
            "socket_address.address",
            format!("{:?} is not an IP address", socket.address),
        )
    })?;
    let port = match socket.port_specifier {
        Some(socket_address::PortSpecifier::PortValue(port)) => port,
        _ => 0,
    };
    let port = u16::try_from(port)
        .ok()
        .filter(|p| *p != 0)
        .ok_or_else(|| {
            ConvertError::new(
                "socket_address.port_value",
                format!("{port} is not a port: give 1 to 65535"),
            )
        })?;
    let protocol = match socket.protocol() {
        socket_address::Protocol::Tcp => Protocol::Tcp,
        socket_address::Protocol::Udp => Protocol::Udp,
    };
    Ok((SocketAddr::new(ip.to_canonical(), port), protocol))
}
