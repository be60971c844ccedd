//! Host routing as the agent handles it: whether packets between local pods and those of other nodes go past the node's stack, and how
//! frames to a pod begin.
//!
//! What the kernel does with it is in `bpf/include/abi/route.h` and `bpf/lib/route.h`.

mod ipsec;
mod links;
mod netfilter;

use std::io;

pub use links::{Links, PodLink};
use netfilter::Netfilter;

/// What is to carry packets between local pods and those of other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostRouting {
    /// The programs, for as long as nobody else has a say: netfilter's rules, or IPsec's policies.
    #[default]
    Auto,
    /// The programs.
    Bpf,
    /// The node's stack.
    Stack,
}

/// What does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutedBy {
    /// The programs; else the stack.
    pub bpf: bool,
    /// Why.
    pub because: String,
    /// Names of the interfaces that lead to other nodes and to the outside, and bytes of the longest packet that goes past the stack there.
    pub uplinks: Vec<(String, u32)>,
}

/// Decides it, again and again.
pub(crate) struct Choice {
    wanted: HostRouting,
    netfilter: Option<Netfilter>,
}

impl Choice {
    /// For the network namespace of the caller.
    pub(crate) fn new(wanted: HostRouting) -> Self {
        let auto = wanted == HostRouting::Auto;
        Self {
            wanted,
            netfilter: auto.then(Netfilter::default),
        }
    }

    /// As things are now. What cannot be found out is left to the stack.
    pub(crate) fn now(&mut self) -> RoutedBy {
        let (bpf, because) = match &mut self.netfilter {
            None => (self.wanted == HostRouting::Bpf, "--host-routing".to_owned()),
            Some(netfilter) => match others(netfilter) {
                Ok(None) => (true, "nobody else has a say".to_owned()),
                Ok(Some(who)) => (false, who),
                Err(e) => (false, format!("netfilter or IPsec cannot be read: {e}")),
            },
        };
        RoutedBy {
            bpf,
            because,
            uplinks: Vec::new(),
        }
    }
}

/// Who else has a say about packets through this node, in words.
fn others(netfilter: &mut Netfilter) -> io::Result<Option<String>> {
    if ipsec::has_policies()? {
        return Ok(Some("there are policies of IPsec".to_owned()));
    }
    netfilter.say()
}
