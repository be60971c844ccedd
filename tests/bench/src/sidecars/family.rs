//! Who takes part: each family has nodes, pods and a mesh, or none, of its own, in one lab.

use serde::{Deserialize, Serialize};

/// How requests are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Family {
    /// Nobody in between.
    Direct,
    /// A sidecar at each pod, plain text between them.
    Sidecars,
    /// A sidecar at each pod, mTLS between them.
    SidecarsMtls,
    /// Weft: an AuthorizationPolicy about requests; mTLS between nodes.
    Policy,
    /// Weft: an HTTPRoute.
    Route,
    /// Weft: a NetworkPolicy; mTLS between nodes.
    Mtls,
    /// Weft: a NetworkPolicy.
    Four,
    /// Weft: a NetworkPolicy, and acceleration on one node.
    Accelerated,
    /// As `Policy`; what pods and their node's Envoy exchange is accelerated.
    PolicyAccelerated,
    /// As `Mtls`, likewise.
    MtlsAccelerated,
}

pub(super) const ALL: [Family; 10] = [
    Family::Direct,
    Family::Sidecars,
    Family::SidecarsMtls,
    Family::Policy,
    Family::Route,
    Family::Mtls,
    Family::Four,
    Family::Accelerated,
    Family::PolicyAccelerated,
    Family::MtlsAccelerated,
];

/// Between two pods of a node.
pub(super) const NEAR: [Family; 8] = [
    Family::Direct,
    Family::Sidecars,
    Family::SidecarsMtls,
    Family::Policy,
    Family::Route,
    Family::PolicyAccelerated,
    Family::Four,
    Family::Accelerated,
];

/// Between pods of two nodes.
pub(super) const FAR: [Family; 7] = [
    Family::Direct,
    Family::SidecarsMtls,
    Family::Policy,
    Family::PolicyAccelerated,
    Family::Mtls,
    Family::MtlsAccelerated,
    Family::Four,
];

impl Family {
    /// In names of nodes and pods.
    pub(super) fn slug(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Sidecars => "plain",
            Self::SidecarsMtls => "pair",
            Self::Policy => "policy",
            Self::Route => "route",
            Self::Mtls => "mtls",
            Self::Four => "four",
            Self::Accelerated => "accel",
            Self::PolicyAccelerated => "fast-policy",
            Self::MtlsAccelerated => "fast-mtls",
        }
    }

    /// In tables. Across nodes some carry mTLS that do not on one.
    pub(super) fn title(self, far: bool) -> &'static str {
        match self {
            Self::Direct => "no mesh",
            Self::Sidecars => "two sidecars",
            Self::SidecarsMtls => "two sidecars, mTLS",
            Self::Policy if far => "Weft, policy at layer 7, mTLS",
            Self::Policy => "Weft, policy at layer 7",
            Self::Route => "Weft, route at layer 7",
            Self::Mtls => "Weft, layer 4, mTLS",
            Self::Four => "Weft, layer 4",
            Self::Accelerated => "Weft, layer 4, accelerated",
            Self::PolicyAccelerated if far => "Weft, policy at layer 7, mTLS, accelerated",
            Self::PolicyAccelerated => "Weft, policy at layer 7, accelerated",
            Self::MtlsAccelerated => "Weft, layer 4, mTLS, accelerated",
        }
    }

    /// Its agents are told to accelerate.
    pub(super) fn is_accelerated(self) -> bool {
        matches!(
            self,
            Self::Accelerated | Self::PolicyAccelerated | Self::MtlsAccelerated
        )
    }

    /// Its servers refuse requests, and not just connections.
    pub(super) fn refuses_requests(self) -> bool {
        matches!(
            self,
            Self::Sidecars | Self::SidecarsMtls | Self::Policy | Self::PolicyAccelerated
        )
    }

    /// Weft runs on its nodes.
    pub(super) fn is_weft(self) -> bool {
        !matches!(self, Self::Direct | Self::Sidecars | Self::SidecarsMtls)
    }

    /// It has a second node.
    pub(super) fn has_far(self) -> bool {
        FAR.contains(&self)
    }

    /// Its place among the service addresses; the second is that of the server on the other node.
    pub(super) fn services(self) -> [u16; 2] {
        let first = 2 * ALL.iter().position(|f| *f == self).unwrap_or_default() as u16;
        [first, first + 1]
    }
}
