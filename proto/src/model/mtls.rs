//! How connections from other nodes have to reach a workload.

use std::collections::BTreeMap;

/// What a workload takes at a port from another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum MtlsMode {
    /// Plain text and the mTLS tunnel.
    #[default]
    Permissive,
    /// The tunnel alone.
    Strict,
    /// Plain text alone.
    Disable,
}

impl MtlsMode {
    /// As Istio's API calls it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permissive => "PERMISSIVE",
            Self::Strict => "STRICT",
            Self::Disable => "DISABLE",
        }
    }
}

/// What a workload takes from other nodes. The default is that of a mesh that says nothing about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Mtls {
    /// At all ports that have none of their own.
    pub mode: MtlsMode,
    /// At these ports.
    pub ports: BTreeMap<u16, MtlsMode>,
    /// Its node ends tunnels for it: HBONE at port 15008 of its addresses. Without, nothing is required and nothing tunnelled.
    pub tunnel: bool,
}

impl Mtls {
    /// What holds at a port.
    #[must_use]
    pub fn at(&self, port: u16) -> MtlsMode {
        self.ports.get(&port).copied().unwrap_or(self.mode)
    }
}
