//! Objects that say who may talk to whom.

mod authorization_policy;
mod cluster_network_policy;
mod label_selector;
mod network_policy;

pub use authorization_policy::{Action, AuthorizationPolicy, AuthorizationRule, Clause, Side};
pub use cluster_network_policy::{
    ClusterNetworkPolicy, ClusterPeer, ClusterPort, ClusterRule, PodSelector,
};
pub use label_selector::LabelSelector;
pub use network_policy::{NetworkPeer, NetworkPolicy, NetworkPort, NetworkRule, PortChoice};
use weft_proto::model::policy::Mode;

use super::Kind;

/// One object of any of these kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPolicy {
    /// Annotation `weft.io/mode`.
    pub mode: Mode,
    /// What it says.
    pub says: AccessRules,
}

/// What an [`AccessPolicy`] says, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessRules {
    /// Of one namespace, adds up with others.
    Network(NetworkPolicy),
    /// Of the cluster, in order.
    Cluster(ClusterNetworkPolicy),
    /// Istio's.
    Mesh(AuthorizationPolicy),
}

impl AccessPolicy {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.says {
            AccessRules::Network(_) => Kind::NetworkPolicy,
            AccessRules::Cluster(_) => Kind::ClusterNetworkPolicy,
            AccessRules::Mesh(_) => Kind::AuthorizationPolicy,
        }
    }

    /// All selectors of namespaces: what it means depends on the namespaces that these select.
    pub fn namespace_selectors(&self) -> Vec<&LabelSelector> {
        match &self.says {
            AccessRules::Network(policy) => policy.namespace_selectors().collect(),
            AccessRules::Cluster(policy) => policy.namespace_selectors().collect(),
            AccessRules::Mesh(_) => Vec::new(),
        }
    }
}
