//! How a service spreads its connections.

use std::time::Duration;

use super::Endpoint;

/// How a backend is chosen for a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LbPolicy {
    /// By weight, at random.
    #[default]
    Random,
    /// In turn, by weight.
    RoundRobin,
    /// The one with fewer open connections for its weight, of two taken by weight at random.
    LeastRequest,
    /// Consistent hashing of the client (Maglev, NSDI 2016): the same client stays on its backend while others come and go.
    Maglev,
}

impl LbPolicy {
    /// Name as `TrafficPolicy` and `weft services` spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Random => "Random",
            Self::RoundRobin => "RoundRobin",
            Self::LeastRequest => "LeastRequest",
            Self::Maglev => "Maglev",
        }
    }
}

/// Which endpoints a node may or should use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LocalityMode {
    /// All alike.
    #[default]
    None,
    /// Those on the client's node; all when there is none ready.
    PreferNode,
    /// Those in the client's zone; all when there is none ready.
    PreferZone,
    /// Those on the client's node and no others (`internalTrafficPolicy: Local`).
    NodeOnly,
}

impl LocalityMode {
    /// Name as `TrafficPolicy`, cluster metadata and `weft services` spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::PreferNode => "PreferNode",
            Self::PreferZone => "PreferZone",
            Self::NodeOnly => "NodeOnly",
        }
    }
}

/// Where a cluster's endpoints come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EndpointSource {
    /// From the [`crate::model::ClusterEndpoints`] of this name, often the cluster's own (type EDS).
    Eds(String),
    /// From the cluster itself (type STATIC).
    Static(Vec<Endpoint>),
}

/// Load balancing and connection settings that listeners share.
///
/// Wire form: `envoy.config.cluster.v3.Cluster` of type EDS or STATIC.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cluster {
    /// Resource name, unique among clusters.
    pub name: String,
    /// Where its endpoints come from.
    pub endpoints: EndpointSource,
    /// Backend choice.
    pub policy: LbPolicy,
    /// A client keeps its backend for this long after its last new connection (`sessionAffinity: ClientIP`).
    pub affinity: Option<Duration>,
    /// Endpoints near the client.
    pub locality: LocalityMode,
    /// A handshake that takes longer fails. `None`: the kernel's own.
    pub connect_timeout: Option<Duration>,
    /// Open connections from one node, over all its clients; at least 1. `None`: no limit.
    pub max_connections: Option<u32>,
    /// When endpoints that fail are left out for a while. `None`: never.
    pub outlier: Option<Outlier>,
    /// Its connections stay with TCP where they could go from socket to socket.
    pub unaccelerated: bool,
    /// Envoy sends requests to it, each in the version of HTTP in which it came.
    pub http: bool,
}

/// Passive health checking: an endpoint whose connects fail is ejected, and comes back after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outlier {
    /// Failed connects in a row until an endpoint is ejected; at least 1.
    pub consecutive_failures: u32,
    /// Length of the first ejection; the n-th in a row lasts n times as long. Never 0.
    pub base_ejection: Duration,
    /// Most endpoints ejected at a time, 0 to 100; one may always be.
    pub max_ejected_percent: u32,
}
