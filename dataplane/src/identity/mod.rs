//! Certificates of this node's workloads: an X.509-SVID for each service account of its pods.
//!
//! Keys are made here and stay in this process's memory; the CA sees requests only. Certificates are renewed at two thirds of their life. The node's Envoy gets
//! them by SDS, together with the trust bundle, which the control plane tells as it changes.

mod ca;
mod entry;
mod keeper;
mod metrics;
mod roots;
mod status;

pub use keeper::Keeper;
pub use metrics::IdentityMetrics;
pub use status::{CertificateStatus, IdentityStatus, SharedIdentities};
