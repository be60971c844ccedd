//! What is judged: the first packet of a connection.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Protocol {
    /// IANA 6.
    #[serde(rename = "TCP")]
    Tcp,
    /// IANA 17.
    #[serde(rename = "UDP")]
    Udp,
    /// IANA 132.
    #[serde(rename = "SCTP")]
    Sctp,
    /// ICMP or ICMPv6 echo, as the addresses are. No policy kind can name it.
    #[serde(rename = "ICMP")]
    Icmp,
    /// IANA 47. Stands for all others.
    #[serde(rename = "GRE")]
    Gre,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Tcp, Self::Udp, Self::Sctp, Self::Icmp, Self::Gre];

    /// Whether its packets name ports.
    #[must_use]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp | Self::Sctp)
    }
}

/// Who opens a connection to whom. Both addresses are of one family.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// Who opens it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// Over what.
    pub protocol: Protocol,
    /// Of the source; 0 without ports. No policy kind looks at it.
    pub source_port: u16,
    /// Of the destination; 0 without ports.
    pub destination_port: u16,
}

impl Connection {
    /// As the destination would open it, or answers.
    #[must_use]
    pub const fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            protocol: self.protocol,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            destination,
            protocol,
            source_port,
            destination_port,
        } = self;
        write!(f, "{protocol:?} {source} -> {destination}")?;
        if protocol.has_ports() {
            write!(f, " port {source_port} -> {destination_port}")?;
        }
        Ok(())
    }
}
