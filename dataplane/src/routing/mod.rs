//! Host routing as the agent handles it: whether packets between local pods and those of other nodes go past the node's stack, and how
//! frames to a pod begin.
//!
//! What the kernel does with it is in `bpf/include/abi/route.h` and `bpf/lib/route.h`.

mod links;
mod netfilter;

use std::io;

pub use links::{Links, PodLink};
use netfilter::Netfilter;

/// What is to carry packets between local pods and those of other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostRouting {
    /// The programs, for as long as nobody else has a say in the node's netfilter.
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
    pub(crate) fn new(wanted: HostRouting) -> io::Result<Self> {
        let auto = wanted == HostRouting::Auto;
        Ok(Self {
            wanted,
            netfilter: auto.then(Netfilter::open).transpose()?,
        })
    }

    /// As things are now. What cannot be found out is left to the stack.
    pub(crate) fn now(&mut self) -> RoutedBy {
        let Some(netfilter) = &mut self.netfilter else {
            return RoutedBy {
                bpf: self.wanted == HostRouting::Bpf,
                because: "--host-routing".to_owned(),
                uplinks: Vec::new(),
            };
        };
        let (bpf, because) = match netfilter.say() {
            Ok(None) => (true, "nobody else has a say in netfilter".to_owned()),
            Ok(Some(say)) => (false, say),
            Err(e) => (false, format!("netfilter's rules cannot be read: {e}")),
        };
        RoutedBy {
            bpf,
            because,
            uplinks: Vec::new(),
        }
    }
}
