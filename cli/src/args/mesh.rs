//! What all parts of a mesh have to agree on.

use clap::Args;
use weft_identity::TrustDomain;

/// Which mesh this is.
#[derive(Debug, Args)]
pub(crate) struct MeshArgs {
    /// Trust domain of the workloads' SPIFFE IDs: the same for the control plane, its CA and all agents, which ask for certificates of no
    /// other
    #[arg(
        long,
        env = "WEFT_TRUST_DOMAIN",
        value_name = "NAME",
        default_value = "cluster.local"
    )]
    pub(crate) trust_domain: TrustDomain,
}
