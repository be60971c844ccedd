//! `security.istio.io` PeerAuthentication.

use std::collections::BTreeMap;

use weft_proto::model::MtlsMode;

use super::LabelSelector;

/// How connections from other nodes have to come to some workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAuthentication {
    /// Which; without requirements, all of its namespace, or of the mesh.
    pub workloads: LabelSelector,
    /// `None`: UNSET, what the next wider object says.
    pub mode: Option<MtlsMode>,
    /// Of single ports; `None`: what holds for the others.
    pub ports: BTreeMap<u16, Option<MtlsMode>>,
}
