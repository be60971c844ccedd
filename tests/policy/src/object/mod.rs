//! Kubernetes objects as they are written in manifests, with the fields that policies depend on. An absent list and an empty one
//! are told apart: the specifications do so.

mod authorization_policy;
mod cluster;
mod cluster_network_policy;
mod document;
mod meta;
mod network_policy;
mod valid;
mod workload;

pub use authorization_policy::{
    Action, AuthorizationPolicy, AuthorizationPolicySpec, AuthorizationRule, Condition, From,
    Operation, Provider, Source, To, WorkloadSelector,
};
pub use cluster::{Cluster, METADATA_NAME};
pub use cluster_network_policy::{
    ClusterAction, ClusterNetworkPolicy, ClusterNetworkPolicySpec, ClusterPeer, ClusterPort,
    ClusterProtocol, ClusterRule, ClusterTier, NamespacedPod, PortMatch, PortRange, Subject,
};
pub use document::{Document, Object, ParseError, parse};
pub use meta::{LabelSelector, Labels, Metadata, Operator, Requirement};
pub use network_policy::{
    EgressRule, IngressRule, IntOrString, IpBlock, NetworkPolicy, NetworkPolicySpec, Peer,
    PolicyPort, PolicyType,
};
pub use workload::{
    Container, ContainerPort, Namespace, Node, NodeAddress, NodeStatus, Pod, PodIp, PodSpec,
    PodStatus,
};
