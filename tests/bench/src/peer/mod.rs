//! What is compared.

mod kube_proxy;
mod weft;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::usage::Usage;

pub use kube_proxy::KubeProxy;
pub use weft::Weft;

/// A way to get from a client to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// No mesh at all: the client knows the backends' addresses.
    Direct,
    /// kube-proxy in iptables mode.
    Iptables,
    /// kube-proxy in nftables mode.
    Nftables,
    /// Weft, from a folder of manifests.
    Weft,
    /// Weft, from the API server.
    WeftKubernetes,
}

impl Kind {
    /// As in names of nodes and options.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Iptables => "iptables",
            Self::Nftables => "nftables",
            Self::Weft => "weft",
            Self::WeftKubernetes => "weftk8s",
        }
    }

    /// As in tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Direct => "no mesh",
            Self::Iptables => "kube-proxy iptables",
            Self::Nftables => "kube-proxy nftables",
            Self::Weft => "Weft",
            Self::WeftKubernetes => "Weft from the API server",
        }
    }
}

/// What brings services to a node: kube-proxy or Weft's agent.
pub trait Proxy {
    /// Prepares what must not count as start, such as a control plane.
    fn prepare(&mut self) -> Result<()>;
    /// Starts it on a node that has no services yet. Does not wait.
    fn start(&mut self) -> Result<()>;
    /// Fails if it has ended.
    fn check(&mut self) -> Result<()>;
    /// Whether it says itself that all is in the kernel; `None`: it cannot say.
    fn ready(&mut self) -> Option<bool>;
    /// Moves the moving service to its backend after `changes` changes, at the
    /// source: API server or folder of manifests.
    fn move_service(&mut self, changes: u32) -> Result<()>;
    /// What its process on the node has used.
    fn usage(&self) -> Result<Usage>;
    /// How long applying updates took inside of it so far; `None`: it does not say.
    fn applied(&self) -> Option<Buckets>;
    /// Stops (`true`) or continues it, so that it leaves the CPU to another peer.
    fn freeze(&self, frozen: bool);
}

/// A cumulative histogram: (upper bound in seconds, how many up to it), ascending.
pub type Buckets = Vec<(f64, u64)>;
