//! Who is who in the mesh, for control plane and node agent alike: SPIFFE IDs, X.509-SVIDs, trust bundles, secrets over SDS, and the TLS and
//! tokens of the channel between the two.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod bundle;
pub mod certificate;
pub mod request;
pub mod sds;
pub mod secret;
pub mod spiffe;
pub mod svid;
pub mod tls;
pub mod token;

pub use bundle::TrustBundle;
pub use spiffe::{SpiffeId, TrustDomain};
pub use svid::Svid;

/// Random bytes that nobody can guess; `None` when the system gives none.
#[must_use]
pub fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).ok()?;
    Some(bytes)
}
