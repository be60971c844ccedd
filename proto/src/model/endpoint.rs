//! Where a service's connections can land.

use std::net::SocketAddr;

/// Whether new connections may land on an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Health {
    /// New connections go here.
    Healthy,
    /// Serving but on its way out: new connections only when no endpoint is healthy; open ones live.
    Draining,
    /// No new connections; open ones live.
    Unhealthy,
}

impl Health {
    /// Lower-case name for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Draining => "draining",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// Where an endpoint runs. Empty strings mean unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Locality {
    /// `topology.kubernetes.io/zone` of the node (`Locality.zone` on the wire).
    pub zone: String,
    /// Node name (`Locality.sub_zone` on the wire).
    pub node: String,
}

/// One address that serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Address and port, the port in 1 to 65535.
    pub address: SocketAddr,
    /// Relative share of new connections, at least 1.
    pub weight: u32,
    /// Levels of Envoy's priority: a higher number is used when all lower ones have no healthy endpoint.
    pub priority: u32,
    /// Whether new connections may land here.
    pub health: Health,
    /// Where it runs.
    pub locality: Locality,
}

/// All endpoints of a cluster.
///
/// Wire form: `envoy.config.endpoint.v3.ClusterLoadAssignment`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterEndpoints {
    /// Resource name, what [`crate::model::Cluster::endpoints_name`] refers to.
    pub name: String,
    /// No address appears twice.
    pub endpoints: Vec<Endpoint>,
}
