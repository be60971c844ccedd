//! Who runs where.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// What kind of thing has the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkloadKind {
    /// A Kubernetes Pod.
    Pod,
    /// A Kubernetes Node itself.
    Node,
}

/// A pod or a node.
///
/// Wire form: `weft.workload.v1.Workload`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Workload {
    /// Resource name: `pod/<namespace>/<name>` or `node/<name>`.
    pub name: String,
    /// Pod or node.
    pub kind: WorkloadKind,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The node it runs on; for a node, its own name.
    pub node: String,
    /// Zone of that node; empty when unknown.
    pub zone: String,
    /// Empty for a node.
    pub namespace: String,
    /// Empty for a node.
    pub service_account: String,
    /// Kubernetes labels.
    pub labels: BTreeMap<String, String>,
    /// `spiffe://<trust domain>/ns/<namespace>/sa/<service account>`; empty for a node.
    pub spiffe_id: String,
    /// Shares its node's addresses.
    pub host_network: bool,
}
