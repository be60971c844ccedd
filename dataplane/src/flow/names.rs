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

/// Longest name that is told: two of Kubernetes' (253 bytes) and what stands between them.
const LONGEST: usize = 512;

/// A name as it is told to people, collectors and Prometheus, whatever a control plane has sent: with control characters escaped,
/// so that none reaches a terminal, and cut with a mark where it is too long.
pub(crate) fn shown(name: &str) -> String {
    let mut shown = String::with_capacity(name.len().min(LONGEST));
    for character in name.chars() {
        if shown.len() + character.len_utf8() > LONGEST {
            shown.push('…');
            break;
        }
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_whatever_is_in_them() {
        for plain in ["", "shop", "shop/cart (app=cart)", "größer \"\\"] {
            assert_eq!(shown(plain), plain);
        }
        assert_eq!(
            shown("a\n\u{1b}[31m\0\u{9b}b"),
            r"a\n\u{1b}[31m\u{0}\u{9b}b"
        );
        let cut = shown(&"ä".repeat(10_000));
        assert_eq!(cut, format!("{}…", "ä".repeat(LONGEST / 2)));
    }
}
