//! What the Envoy of one node needs for mTLS with other nodes, once for each identity of its pods.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Names of these resources begin with this.
pub const TUNNEL_PREFIX: &str = "weft.tunnel/";

/// How a local identity opens tunnels.
///
/// Wire form: `envoy.config.cluster.v3.Cluster`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TunnelCluster {
    /// Resource name.
    pub name: String,
    /// The node whose Envoy takes it.
    pub node: String,
    /// SPIFFE ID, which is the name of its secret too.
    pub identity: String,
    /// Whose certificates are believed.
    pub trust_domain: String,
}

/// At which end of a tunnel a listener is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelSide {
    /// What local pods open goes in.
    Entry,
    /// What is for local pods comes out.
    Exit,
}

/// One end of all tunnels, for one address family.
///
/// Wire form: `envoy.config.listener.v3.Listener`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TunnelListener {
    /// Resource name.
    pub name: String,
    /// The node whose Envoy takes it.
    pub node: String,
    /// Which end.
    pub side: TunnelSide,
    /// Whether it is for IPv6.
    pub ipv6: bool,
    /// SPIFFE IDs of local pods by address.
    pub pods: BTreeMap<IpAddr, String>,
    /// Of an entry: the [`TunnelCluster`] of each identity.
    pub clusters: BTreeMap<String, String>,
    /// Whose certificates are believed.
    pub trust_domain: String,
}
