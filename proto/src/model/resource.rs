//! Any one thing that the control plane tells a node.

use super::{
    ApiListener, Cluster, ClusterEndpoints, Listener, Policy, Problem, RouteTable, Workload,
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
            Self::Cluster(_) => ResourceType::Cluster,
            Self::Endpoints(_) => ResourceType::Endpoints,
            Self::Listener(_) | Self::ApiListener(_) => ResourceType::Listener,
            Self::Routes(_) | Self::ClientRoutes(_) => ResourceType::Route,
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

    /// Its name, unique within its type.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Cluster(c) => c.name.clone(),
            Self::Endpoints(e) => e.name.clone(),
            Self::Listener(l) => l.name.clone(),
            Self::ApiListener(l) => l.name.clone(),
            Self::Routes(r) | Self::ClientRoutes(r) => r.name.clone(),
            Self::Policy(p) => p.name.clone(),
            Self::Workload(w) => w.name.clone(),
            Self::Problem(p) => p.name(),
        }
    }
}
