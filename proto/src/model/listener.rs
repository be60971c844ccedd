//! A service port as its clients see it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use super::policy::Cidr;

/// Transport protocol of a service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// IANA protocol 6.
    Tcp,
    /// IANA protocol 17.
    Udp,
}

impl Protocol {
    /// IANA protocol number, as in the IP header.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// Neither `tcp` nor `udp`.
#[derive(Debug, thiserror::Error)]
#[error("protocol {0:?} is not TCP or UDP")]
pub struct ParseProtocolError(String);

impl FromStr for Protocol {
    type Err = ParseProtocolError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if s.eq_ignore_ascii_case("tcp") {
            Ok(Self::Tcp)
        } else if s.eq_ignore_ascii_case("udp") {
            Ok(Self::Udp)
        } else {
            Err(ParseProtocolError(s.to_owned()))
        }
    }
}

/// Where a listener's traffic is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// `tcp_proxy` or `udp_proxy`: stays in the kernel.
    Four,
    /// `http_connection_manager`: goes to the node's Envoy.
    Seven,
}

/// Whose connections a listener takes. Wire form: `traffic_direction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Those that sockets of this node open: of its pods, and of the node itself.
    #[default]
    Inside,
    /// Those that come to the node from outside the cluster.
    Outside,
}

impl Side {
    /// Its word, as people and programs read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Outside => "outside",
        }
    }
}

/// The Kubernetes service port a listener stands for, as far as the server told.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceRef {
    /// Kubernetes namespace.
    pub namespace: String,
    /// Kubernetes Service name.
    pub name: String,
    /// Name of the port; empty for an unnamed one.
    pub port_name: String,
}

impl fmt::Display for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One service port: the addresses clients connect to and the cluster that serves them.
///
/// Wire form: `envoy.config.listener.v3.Listener`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// Resource name, unique among listeners.
    pub name: String,
    /// The service behind it, when known.
    pub service: Option<ServiceRef>,
    /// Virtual addresses (VIPs), at least one. Both families may appear.
    pub addresses: Vec<IpAddr>,
    /// Port, host byte order, 1 to 65535.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Name of the [`crate::model::Cluster`] new connections go to.
    pub cluster: String,
    /// Kernel or Envoy.
    pub layer: Layer,
    /// Whose connections.
    pub side: Side,
    /// Of [`Side::Outside`]: the clients that are let in. Empty: all.
    pub source_ranges: Vec<Cidr>,
    /// Of [`Side::Outside`]: where each node answers over HTTP whether it has a backend of its own (Service's
    /// `healthCheckNodePort`).
    pub health_check_port: Option<u16>,
    /// A connection without traffic for this long is closed. `None`: the default.
    pub idle_timeout: Option<Duration>,
    /// A connection older than this is closed. `None`: never.
    pub max_duration: Option<Duration>,
    /// New connections from one node, over all its clients; at least 1, and a burst of one second's worth. `None`: no limit.
    pub connections_per_second: Option<u32>,
}
