//! Names for what the kernel tells in numbers.

use std::net::{IpAddr, SocketAddr};

use weft_proto::model::Workload;
use weft_proto::model::policy::ObjectRef;

/// A rule and the object it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleName {
    /// What the author wrote.
    pub object: ObjectRef,
    /// The rule's name within it; empty where the object decides by selecting alone: none of its rules matched.
    pub rule: String,
}

/// What the agent knows.
pub trait Names {
    /// Grows whenever a name may have become another.
    fn generation(&self) -> u64;

    /// The pod or node that has this address; of those that share a node's, the node.
    fn workload(&self, address: IpAddr) -> Option<&Workload>;

    /// "namespace/name" of the service with this id.
    fn service(&self, id: u32) -> Option<String>;

    /// "namespace/name" of the service with this address.
    fn service_at(&self, vip: SocketAddr, protocol: u8) -> Option<String>;

    /// The rule with this id, if some policy still has it.
    fn rule(&self, id: u32) -> Option<RuleName>;

    /// What an identity stands for, for people.
    fn identity(&self, number: u32) -> Option<String>;
}

/// "Kind namespace/name", as people write it.
pub(crate) fn object(object: &ObjectRef) -> String {
    let ObjectRef {
        kind,
        namespace,
        name,
    } = object;
    match namespace.as_str() {
        "" => format!("{kind} {name}"),
        _ => format!("{kind} {namespace}/{name}"),
    }
}
