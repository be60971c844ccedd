//! Who runs where.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::mtls::Mtls;
use super::policy::IpProtocol;

/// What kind of thing has the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkloadKind {
    /// A Kubernetes Pod.
    Pod,
    /// A Kubernetes Node itself.
    Node,
}

/// A port that a pod declares under a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamedPort {
    /// Unique within a pod and protocol; the first counts where it is not.
    pub name: String,
    /// 1 to 65535.
    pub port: u16,
    /// TCP, UDP or SCTP.
    pub protocol: IpProtocol,
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
    /// What policies may call its ports; none for a node.
    pub ports: Vec<NamedPort>,
    /// Its connections stay with TCP where they could go from socket to socket.
    pub unaccelerated: bool,
    /// Nothing of Weft is at its interface: no policy is asked there, nothing is counted, no tunnel ends there.
    pub out_of_mesh: bool,
    /// How connections from other nodes have to reach it.
    pub mtls: Mtls,
}
