//! Who is at an address.

use std::net::IpAddr;

use crate::object::{Cluster, Node, Pod};

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Party<'a> {
    /// Its address.
    pub address: IpAddr,
    /// Whose that is.
    pub who: Who<'a>,
}

/// What can have an address.
#[derive(Clone, Copy, Debug)]
pub enum Who<'a> {
    /// A pod, to itself.
    Pod(&'a Pod),
    /// A node. Its host-network pods cannot be told from it: "NetworkPolicy behaviour for hostNetwork pods is undefined, but it
    /// should be limited to 2 possibilities", of which this is the second:
    /// <https://kubernetes.io/docs/concepts/services-networking/network-policies/#networkpolicy-and-hostnetwork-pods>
    Node(&'a Node),
    /// Neither.
    External,
}

impl<'a> Party<'a> {
    /// Who is at the address.
    #[must_use]
    pub fn at(cluster: &'a Cluster, address: IpAddr) -> Self {
        let who = match (cluster.pod_at(address), cluster.node_at(address)) {
            (Some(pod), _) => Who::Pod(pod),
            (None, Some(node)) => Who::Node(node),
            (None, None) => Who::External,
        };
        Self { address, who }
    }

    /// If it is one.
    #[must_use]
    pub const fn pod(&self) -> Option<&'a Pod> {
        match self.who {
            Who::Pod(pod) => Some(pod),
            _ => None,
        }
    }

    /// If it is one.
    #[must_use]
    pub const fn node(&self) -> Option<&'a Node> {
        match self.who {
            Who::Node(node) => Some(node),
            _ => None,
        }
    }
}
