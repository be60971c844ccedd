//! `networking.k8s.io/v1` NetworkPolicy.

use serde::{Deserialize, Serialize};

use super::{LabelSelector, Metadata};
use crate::connection::Protocol;

/// NetworkPolicy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkPolicy {
    /// `metadata`.
    pub metadata: Metadata,
    /// `spec`.
    #[serde(default)]
    pub spec: NetworkPolicySpec,
}

/// `NetworkPolicySpec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkPolicySpec {
    /// Absent: as empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Which of the lists count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_types: Option<Vec<PolicyType>>,
    /// Alternatives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Vec<IngressRule>>,
    /// Alternatives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Vec<EgressRule>>,
}

/// `PolicyType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PolicyType {
    /// Of what is opened to the pods.
    Ingress,
    /// Of what the pods open.
    Egress,
}

/// `NetworkPolicyIngressRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IngressRule {
    /// Empty or absent: all sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Peer>>,
    /// Empty or absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<PolicyPort>>,
}

/// `NetworkPolicyEgressRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressRule {
    /// Empty or absent: all destinations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Peer>>,
    /// Empty or absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<PolicyPort>>,
}

/// `NetworkPolicyPeer`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Peer {
    /// Pods, in the policy's namespace unless `namespace_selector` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_block: Option<IpBlock>,
}

/// `IPBlock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IpBlock {
    /// What is in.
    pub cidr: String,
    /// What of it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub except: Option<Vec<String>>,
}

/// `NetworkPolicyPort`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyPort {
    /// Absent: TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<IntOrString>,
    /// With a numerical `port`: all from there to here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_port: Option<u16>,
}

/// `IntOrString`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(u16),
    /// The name of container ports.
    String(String),
}
