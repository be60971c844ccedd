//! The cluster's objects as far as Weft uses them: checked, small, and free of any API library's types.

mod access;
mod endpoint_slice;
mod name;
mod namespace;
mod node;
mod peer_authentication;
mod pod;
mod route;
mod service;
mod subject;
mod traffic_policy;

use std::sync::Arc;

pub use access::{
    AccessPolicy, AccessRules, Action, AuthorizationPolicy, AuthorizationRule, Clause,
    ClusterNetworkPolicy, ClusterPeer, ClusterPort, ClusterRule, LabelSelector, NetworkPeer,
    NetworkPolicy, NetworkPort, NetworkRule, PodSelector, PortChoice, Side,
};
pub use endpoint_slice::{EndpointSlice, SliceEndpoint};
pub use name::{Kind, ObjectName, ObjectRef};
pub use namespace::Namespace;
pub use node::Node;
pub use peer_authentication::PeerAuthentication;
pub use pod::Pod;
pub use route::{
    BackendRef, PathRewrite, Route, RouteBackend, RouteParent, RouteRule, RuleAction, RuleForward,
    RuleRedirect,
};
pub use service::{Outside, Service, ServicePort, SlicePort, TargetPort};
pub use subject::Subject;
pub use traffic_policy::TrafficPolicy;

/// One object and where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub name: ObjectName,
    /// File and line ("shop.yaml:12"); empty when it has none.
    pub origin: Arc<str>,
    /// `metadata.creationTimestamp` in Unix seconds; what has none counts as oldest.
    pub created: Option<i64>,
    /// What it says.
    pub spec: Spec,
}

/// What an object says, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// What policies select by its labels.
    Namespace(Arc<Namespace>),
    /// A machine.
    Node(Arc<Node>),
    /// A workload.
    Pod(Arc<Pod>),
    /// A virtual address.
    Service(Arc<Service>),
    /// Part of a service's endpoints.
    EndpointSlice(Arc<EndpointSlice>),
    /// How services are to be balanced.
    TrafficPolicy(Arc<TrafficPolicy>),
    /// Where requests of services go.
    HttpRoute(Arc<Route>),
    /// The same, written for gRPC.
    GrpcRoute(Arc<Route>),
    /// Who may talk to whom.
    Access(Arc<AccessPolicy>),
    /// How connections from other nodes have to come.
    PeerAuthentication(Arc<PeerAuthentication>),
}

impl Object {
    /// Kind and name.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        ObjectRef {
            kind: match &self.spec {
                Spec::Namespace(_) => Kind::Namespace,
                Spec::Node(_) => Kind::Node,
                Spec::Pod(_) => Kind::Pod,
                Spec::Service(_) => Kind::Service,
                Spec::EndpointSlice(_) => Kind::EndpointSlice,
                Spec::TrafficPolicy(_) => Kind::TrafficPolicy,
                Spec::HttpRoute(_) => Kind::HTTPRoute,
                Spec::GrpcRoute(_) => Kind::GRPCRoute,
                Spec::Access(policy) => policy.kind(),
                Spec::PeerAuthentication(_) => Kind::PeerAuthentication,
            },
            name: self.name.clone(),
        }
    }
}
