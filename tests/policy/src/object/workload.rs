//! Namespaces, nodes and pods.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Metadata;
use crate::connection::Protocol;

/// `v1` Namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// `metadata`.
    pub metadata: Metadata,
}

/// `v1` Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// `metadata`.
    pub metadata: Metadata,
    /// `status`.
    #[serde(default)]
    pub status: NodeStatus,
}

/// `NodeStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its addresses.
    #[serde(default)]
    pub addresses: Vec<NodeAddress>,
}

/// `NodeAddress`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// `InternalIP` here.
    #[serde(rename = "type")]
    pub kind: String,
    /// One address.
    pub address: IpAddr,
}

/// `v1` Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// `metadata`.
    pub metadata: Metadata,
    /// `spec`.
    pub spec: PodSpec,
    /// `status`.
    #[serde(default)]
    pub status: PodStatus,
}

/// `PodSpec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// Where it runs.
    pub node_name: String,
    /// Absent: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Shares its node's addresses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_network: bool,
    /// What it is made of.
    #[serde(default)]
    pub containers: Vec<Container>,
}

/// `Container`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Unique in its pod.
    pub name: String,
    /// What it listens on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ContainerPort>,
}

/// `ContainerPort`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPort {
    /// Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// 1 to 65535.
    pub container_port: u16,
    /// Absent: TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
}

/// `PodStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// `Succeeded` and `Failed` pods have given up their addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Its addresses.
    #[serde(default, rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
}

/// `PodIP`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodIp {
    /// One address.
    pub ip: IpAddr,
}

impl Node {
    /// Whether the address is one of its own.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        self.status.addresses.iter().any(|a| a.address == address)
    }
}

impl Pod {
    /// Whether the address is the pod's, and not its node's or given up.
    #[must_use]
    pub fn owns(&self, address: IpAddr) -> bool {
        !self.spec.host_network
            && !self.is_finished()
            && self.status.pod_ips.iter().any(|p| p.ip == address)
    }

    /// `spec.serviceAccountName`.
    #[must_use]
    pub fn service_account(&self) -> &str {
        self.spec
            .service_account_name
            .as_deref()
            .unwrap_or("default")
    }

    /// The port numbers that are called so, for each protocol.
    pub fn ports_named(&self, name: &str) -> impl Iterator<Item = (Protocol, u16)> {
        self.spec
            .containers
            .iter()
            .flat_map(|c| &c.ports)
            .filter(move |p| p.name.as_deref() == Some(name))
            .map(|p| (p.protocol.unwrap_or(Protocol::Tcp), p.container_port))
    }

    fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }
}
