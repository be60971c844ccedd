//! `policy.networking.k8s.io/v1alpha2` ClusterNetworkPolicy.

use serde::{Deserialize, Serialize};

use super::{LabelSelector, Metadata};

/// ClusterNetworkPolicy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterNetworkPolicy {
    /// `metadata`.
    pub metadata: Metadata,
    /// `spec`.
    pub spec: ClusterNetworkPolicySpec,
}

/// `ClusterNetworkPolicySpec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterNetworkPolicySpec {
    /// Before or after NetworkPolicies.
    pub tier: ClusterTier,
    /// 0 to 1000, lower ones first.
    pub priority: u32,
    /// Whom it is for.
    pub subject: Subject,
    /// In order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Vec<ClusterRule>>,
    /// In order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Vec<ClusterRule>>,
}

/// `Tier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterTier {
    /// Before NetworkPolicies.
    Admin,
    /// After them.
    Baseline,
}

/// `ClusterNetworkPolicySubject`: exactly one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Subject {
    /// All pods of namespaces.
    Namespaces(LabelSelector),
    /// Some of their pods.
    Pods(NamespacedPod),
}

/// `NamespacedPod`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespacedPod {
    /// Empty: all.
    #[serde(default)]
    pub namespace_selector: LabelSelector,
    /// Empty: all.
    #[serde(default)]
    pub pod_selector: LabelSelector,
}

/// `ClusterNetworkPolicyIngressRule` and `ClusterNetworkPolicyEgressRule`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterRule {
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What becomes of what matches.
    pub action: ClusterAction,
    /// Of ingress rules: at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<ClusterPeer>>,
    /// Of egress rules: at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<ClusterPeer>>,
    /// Absent: all traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocols: Option<Vec<ClusterProtocol>>,
}

/// `ClusterNetworkPolicyRuleAction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterAction {
    /// Lets through.
    Accept,
    /// Refuses.
    Deny,
    /// Leaves it to the next tier.
    Pass,
}

/// `ClusterNetworkPolicyIngressPeer` (the first two) and `ClusterNetworkPolicyEgressPeer`: exactly one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClusterPeer {
    /// All pods of namespaces.
    Namespaces(LabelSelector),
    /// Some of their pods.
    Pods(NamespacedPod),
    /// Nodes.
    Nodes(LabelSelector),
    /// CIDRs.
    Networks(Vec<String>),
    /// Names in DNS.
    DomainNames(Vec<String>),
}

/// `ClusterNetworkPolicyProtocol`: exactly one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClusterProtocol {
    /// TCP.
    Tcp(PortMatch),
    /// UDP.
    Udp(PortMatch),
    /// SCTP.
    Sctp(PortMatch),
    /// The name of a container port, of any protocol.
    DestinationNamedPort(String),
}

/// `ClusterNetworkPolicyProtocolTCP` and its likes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortMatch {
    /// The API asks for it.
    pub destination_port: ClusterPort,
}

/// `Port`: exactly one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClusterPort {
    /// One port.
    Number(u16),
    /// Many.
    Range(PortRange),
}

/// `PortRange`, both bounds included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortRange {
    /// Less than `end`.
    pub start: u16,
    /// The last one.
    pub end: u16,
}
