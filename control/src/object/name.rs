//! What objects are called.

use std::fmt;
use std::sync::Arc;

/// A kind that Weft reads and uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `v1` Namespace
    Namespace,
    /// `v1` Node
    Node,
    /// `v1` Pod
    Pod,
    /// `v1` Service
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice
    EndpointSlice,
    /// `weft.io/v1alpha1` TrafficPolicy
    TrafficPolicy,
    /// `gateway.networking.k8s.io/v1` HTTPRoute
    HTTPRoute,
    /// `gateway.networking.k8s.io/v1` GRPCRoute
    GRPCRoute,
    /// `networking.k8s.io/v1` NetworkPolicy
    NetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha2` ClusterNetworkPolicy
    ClusterNetworkPolicy,
    /// `security.istio.io/v1` AuthorizationPolicy
    AuthorizationPolicy,
    /// `security.istio.io/v1` PeerAuthentication
    PeerAuthentication,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Namespace,
        Self::Node,
        Self::Pod,
        Self::Service,
        Self::EndpointSlice,
        Self::TrafficPolicy,
        Self::HTTPRoute,
        Self::GRPCRoute,
        Self::NetworkPolicy,
        Self::ClusterNetworkPolicy,
        Self::AuthorizationPolicy,
        Self::PeerAuthentication,
    ];

    /// As in a manifest's `kind`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::TrafficPolicy => "TrafficPolicy",
            Self::HTTPRoute => "HTTPRoute",
            Self::GRPCRoute => "GRPCRoute",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::ClusterNetworkPolicy => "ClusterNetworkPolicy",
            Self::AuthorizationPolicy => "AuthorizationPolicy",
            Self::PeerAuthentication => "PeerAuthentication",
        }
    }

    /// The values of `apiVersion` in which it is read, the best first.
    #[must_use]
    pub const fn api_versions(self) -> &'static [&'static str] {
        match self {
            Self::Namespace | Self::Node | Self::Pod | Self::Service => &["v1"],
            Self::EndpointSlice => &["discovery.k8s.io/v1"],
            Self::TrafficPolicy => &["weft.io/v1alpha1"],
            Self::HTTPRoute => &[
                "gateway.networking.k8s.io/v1",
                "gateway.networking.k8s.io/v1beta1",
            ],
            Self::GRPCRoute => &["gateway.networking.k8s.io/v1"],
            Self::NetworkPolicy => &["networking.k8s.io/v1"],
            Self::ClusterNetworkPolicy => &["policy.networking.k8s.io/v1alpha2"],
            Self::AuthorizationPolicy | Self::PeerAuthentication => {
                &["security.istio.io/v1", "security.istio.io/v1beta1"]
            }
        }
    }

    /// Whether its objects say who may talk to whom, and how.
    #[must_use]
    pub const fn is_access(self) -> bool {
        matches!(
            self,
            Self::NetworkPolicy
                | Self::ClusterNetworkPolicy
                | Self::AuthorizationPolicy
                | Self::PeerAuthentication
        )
    }

    /// Whether Weft says in its objects' status what it makes of them.
    #[must_use]
    pub const fn has_status(self) -> bool {
        matches!(
            self,
            Self::TrafficPolicy | Self::HTTPRoute | Self::GRPCRoute | Self::ClusterNetworkPolicy
        )
    }

    /// Whether its objects live in a namespace.
    #[must_use]
    pub const fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Self::Namespace | Self::Node | Self::ClusterNetworkPolicy
        )
    }
}

/// Namespace and name; the namespace is empty for kinds that have none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ObjectName {
    /// A name in a namespace.
    #[must_use]
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Kind and name: what tells an object from all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: ObjectName,
}

impl ObjectRef {
    /// What [`fmt::Display`] has written, such as "Service shop/cart".
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(' ')?;
        let kind = Kind::ALL.into_iter().find(|k| k.as_str() == kind)?;
        let name = match (kind.is_namespaced(), name.split_once('/')) {
            (true, Some((namespace, name))) => ObjectName::new(namespace, name),
            (false, None) => ObjectName::new("", name),
            _ => return None,
        };
        Some(Self { kind, name })
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}
