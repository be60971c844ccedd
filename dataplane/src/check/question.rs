//! Who is asked about, as people write it.

use std::net::{IpAddr, SocketAddr};

use weft_proto::wire::admin::v1::CheckRequest;

use crate::flow::protocol;

/// One end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address.
    Address(IpAddr),
    /// A pod, or for destinations a service.
    Name {
        /// Kubernetes namespace.
        namespace: String,
        /// Kubernetes name.
        name: String,
    },
}

/// A question that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// Neither an address nor a name.
    #[error("{0:?} is no place: give NAMESPACE/POD, NAMESPACE/SERVICE or an address")]
    Place(String),
    /// No such port.
    #[error("{0} is no port: give 1 to 65535")]
    Port(u32),
    /// No such protocol.
    #[error("{0:?} is no protocol: give tcp, udp, sctp or icmp")]
    Protocol(String),
    /// ICMP has none.
    #[error("ICMP has no ports: leave the port out")]
    PortOfIcmp,
}

/// May `from` open a connection to `to`?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who opens it.
    pub from: Place,
    /// To whom.
    pub to: Place,
    /// `None`: see `CheckRequest.port`.
    pub port: Option<u16>,
    /// `IPPROTO_*`; `None`: see `CheckRequest.protocol`.
    pub protocol: Option<u8>,
}

impl TryFrom<CheckRequest> for Question {
    type Error = QuestionError;

    fn try_from(wire: CheckRequest) -> Result<Self, QuestionError> {
        let protocol = match wire.protocol.as_str() {
            "" => None,
            word => Some(
                protocol::number(word)
                    .ok_or_else(|| QuestionError::Protocol(wire.protocol.clone()))?,
            ),
        };
        let port = match wire.port {
            0 => None,
            port => Some(u16::try_from(port).map_err(|_| QuestionError::Port(port))?),
        };
        if port.is_some() && protocol.is_some_and(is_icmp) {
            return Err(QuestionError::PortOfIcmp);
        }
        Ok(Self {
            from: Place::parse(&wire.from)?,
            to: Place::parse(&wire.to)?,
            port,
            protocol,
        })
    }
}

impl Place {
    fn parse(text: &str) -> Result<Self, QuestionError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self::Name {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err(QuestionError::Place(text.to_owned())),
        }
    }
}

pub(super) const fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, protocol::ICMP | protocol::ICMPV6)
}

/// ICMP of the family that `destination` is of.
pub(super) const fn in_family(protocol: u8, destination: &SocketAddr) -> u8 {
    match (protocol, destination) {
        (protocol::ICMP, SocketAddr::V6(_)) => protocol::ICMPV6,
        (protocol::ICMPV6, SocketAddr::V4(_)) => protocol::ICMP,
        _ => protocol,
    }
}
