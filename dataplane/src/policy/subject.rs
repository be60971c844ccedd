//! What policies can tell about whoever has an address.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_proto::model::policy::{Cidr, PeerKind};

use crate::tables::policy::NodePart;

/// Ports of one name, by protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct NamedPorts {
    /// 0: none of this name, as of the others.
    pub(crate) tcp: u16,
    pub(crate) udp: u16,
    pub(crate) sctp: u16,
}

/// A pod, a node or the world outside, whatever its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) kind: PeerKind,
    pub(crate) node: NodePart,
    pub(crate) namespace: String,
    pub(crate) service_account: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) ports: BTreeMap<String, NamedPorts>,
    pub(crate) spiffe_id: String,
}

impl Subject {
    /// Neither pod nor node.
    pub(crate) fn external() -> Self {
        Self {
            kind: PeerKind::External,
            node: NodePart::None,
            namespace: String::new(),
            service_account: String::new(),
            labels: BTreeMap::new(),
            ports: BTreeMap::new(),
            spiffe_id: String::new(),
        }
    }
}

/// Everything that policies cannot tell apart: one identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Class {
    pub(crate) subject: Arc<Subject>,
    /// The most specific prefix of those in policies that the address is in.
    pub(crate) cidr: Option<Cidr>,
}
