//! Nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// A machine that pods run on.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Node {
    /// `status.addresses` of type InternalIP and ExternalIP, in their order.
    pub addresses: Vec<IpAddr>,
    /// Label `topology.kubernetes.io/zone`; empty when it has none.
    pub zone: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
}
