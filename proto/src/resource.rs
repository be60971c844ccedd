//! The resource types that travel over ADS, and their type URLs.

use std::fmt;

/// Last character of a delta response's `system_version_info` when more of the same type follows at once. The protocol has no
/// word for this; servers may use the field as they like, and one that never says it is taken to have sent all.
pub const MORE_FOLLOWS: char = '+';

/// Metadata of a stream that says for which back end of a node it is; without it, for the agent.
pub const BACK_END: &str = "weft-back-end";
/// The node's Envoy: it is sent what needs layer 7, and nothing else.
pub const BACK_END_ENVOY: &str = "envoy";

/// Metadata that says in which node's name a certificate is asked for.
pub const NODE: &str = "weft-node";

/// A resource type this mesh speaks.
///
/// See <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol>.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceType {
    /// `envoy.config.cluster.v3.Cluster`
    Cluster,
    /// `envoy.config.endpoint.v3.ClusterLoadAssignment`
    Endpoints,
    /// `envoy.config.listener.v3.Listener`
    Listener,
    /// `envoy.config.route.v3.RouteConfiguration`
    Route,
    /// `weft.policy.v1.Policy`
    Policy,
    /// `weft.workload.v1.Workload`
    Workload,
    /// `weft.status.v1.Problem`
    Problem,
}

impl ResourceType {
    /// All of them, in the order in which they are best sent: what is referred to before what refers to it.
    pub const ALL: [Self; 7] = [
        Self::Cluster,
        Self::Endpoints,
        Self::Listener,
        Self::Route,
        Self::Policy,
        Self::Workload,
        Self::Problem,
    ];

    /// The type URL of `Any`, `DiscoveryRequest` and the like.
    #[must_use]
    pub const fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            Self::Policy => "type.googleapis.com/weft.policy.v1.Policy",
            Self::Workload => "type.googleapis.com/weft.workload.v1.Workload",
            Self::Problem => "type.googleapis.com/weft.status.v1.Problem",
        }
    }

    /// The type with this URL, if it is one of ours.
    #[must_use]
    pub fn from_type_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.type_url() == url)
    }

    /// Every xDS server knows the Envoy types; only ours knows the others.
    #[must_use]
    pub const fn is_envoy(self) -> bool {
        matches!(
            self,
            Self::Cluster | Self::Endpoints | Self::Listener | Self::Route
        )
    }

    /// Agents use it; the others are for the node's Envoy alone.
    #[must_use]
    pub const fn is_for_agents(self) -> bool {
        !matches!(self, Self::Route)
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.type_url();
        f.write_str(url.rsplit('.').next().unwrap_or(url))
    }
}
