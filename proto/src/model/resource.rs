//! Any one thing that the control plane tells a node.

use super::{
    ApiListener, Cluster, ClusterEndpoints, EndpointSource, Guard, Inbound, Listener, Policy,
    Problem, RouteTable, Side, TunnelCluster, TunnelListener, Workload,
};
use crate::resource::ResourceType;

/// A resource of any type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Load-balancing settings.
    Cluster(Cluster),
    /// A cluster's endpoints.
    Endpoints(ClusterEndpoints),
    /// A service port.
    Listener(Listener),
    /// Where requests of a service port go, for Envoys.
    Routes(RouteTable),
    /// What a gRPC client dials.
    ApiListener(ApiListener),
    /// Where its calls go.
    ClientRoutes(RouteTable),
    /// How an identity opens tunnels; for the Envoy of its node.
    TunnelCluster(TunnelCluster),
    /// One end of a node's tunnels; for its Envoy.
    TunnelListener(TunnelListener),
    /// Pods in whose place a node's Envoy takes connections.
    Inbound(Inbound),
    /// What it asks of their requests.
    Guard(Guard),
    /// Who may talk to whom.
    Policy(Policy),
    /// A pod or node.
    Workload(Workload),
    /// Something to mend.
    Problem(Problem),
}

impl Resource {
    /// Its type.
    #[must_use]
    pub const fn resource_type(&self) -> ResourceType {
        match self {
            Self::Cluster(_) | Self::TunnelCluster(_) => ResourceType::Cluster,
            Self::Endpoints(_) => ResourceType::Endpoints,
            Self::Listener(_)
            | Self::ApiListener(_)
            | Self::Inbound(_)
            | Self::TunnelListener(_) => ResourceType::Listener,
            Self::Routes(_) | Self::ClientRoutes(_) | Self::Guard(_) => ResourceType::Route,
            Self::Policy(_) => ResourceType::Policy,
            Self::Workload(_) => ResourceType::Workload,
            Self::Problem(_) => ResourceType::Problem,
        }
    }

    /// Whether only those get it who ask for its name.
    #[must_use]
    pub const fn is_by_name(&self) -> bool {
        matches!(self, Self::ApiListener(_) | Self::ClientRoutes(_))
    }

    /// The node whose Envoy alone takes it; `None`: whoever asks.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Inbound(i) => Some(&i.node),
            Self::TunnelCluster(c) => Some(&c.node),
            Self::TunnelListener(l) => Some(&l.node),
            _ => None,
        }
    }

    /// Whether it means nothing to an Envoy: what comes to a node from outside is the kernel's.
    #[must_use]
    pub fn is_for_kernel(&self) -> bool {
        match self {
            Self::Listener(l) => l.side == Side::Outside,
            // Another choice among the endpoints of a cluster, which only such listeners name.
            Self::Cluster(c) => matches!(&c.endpoints, EndpointSource::Eds(of) if *of != c.name),
            _ => false,
        }
    }

    /// Its name, unique within its type.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Cluster(c) => c.name.clone(),
            Self::Endpoints(e) => e.name.clone(),
            Self::Listener(l) => l.name.clone(),
            Self::ApiListener(l) => l.name.clone(),
            Self::Routes(r) | Self::ClientRoutes(r) => r.name.clone(),
            Self::TunnelCluster(c) => c.name.clone(),
            Self::TunnelListener(l) => l.name.clone(),
            Self::Inbound(i) => i.name(),
            Self::Guard(g) => g.name.clone(),
            Self::Policy(p) => p.name.clone(),
            Self::Workload(w) => w.name.clone(),
            Self::Problem(p) => p.name(),
        }
    }
}
