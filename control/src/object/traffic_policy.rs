//! Weft's own TrafficPolicy.

use std::sync::Arc;
use std::time::Duration;

use weft_proto::model::{LbPolicy, LocalityMode, Outlier};

/// What no standard API says about a service's connections. Fields that are `None` leave the service's own settings.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TrafficPolicy {
    /// Services of the policy's own namespace.
    pub targets: Vec<Arc<str>>,
    /// How a backend is chosen.
    pub policy: Option<LbPolicy>,
    /// How long a client keeps its backend.
    pub affinity: Option<Duration>,
    /// Endpoints near the client.
    pub locality: Option<LocalityMode>,
    /// Longest handshake.
    pub connect_timeout: Option<Duration>,
    /// Longest silence of a connection.
    pub idle_timeout: Option<Duration>,
    /// Longest life of a connection.
    pub max_duration: Option<Duration>,
    /// Open connections from one node.
    pub max_connections: Option<u32>,
    /// New connections from one node.
    pub connections_per_second: Option<u32>,
    /// When failing endpoints are left out.
    pub outlier: Option<Outlier>,
    /// Connections stay with TCP where they could go from socket to socket.
    pub unaccelerated: bool,
}
