//! The roots that a trust domain's certificates lead to.

use std::fmt;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;
use xxhash_rust::xxh3::xxh3_64;

use crate::certificate::{Certificate, CertificateError, to_pem};

/// Root certificates, each once, in an order that is the same everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustBundle {
    roots: Vec<CertificateDer<'static>>,
}

impl TrustBundle {
    /// Of these roots.
    #[must_use]
    pub fn new(roots: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        let mut roots: Vec<_> = roots.into_iter().collect();
        roots.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
        roots.dedup();
        Self { roots }
    }

    /// Reads PEM; at least one certificate.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CertificateError> {
        Ok(Self::new(Certificate::all(pem)?.into_iter().map(|c| c.der)))
    }

    /// As PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        to_pem(&self.roots)
    }

    /// The roots.
    pub fn roots(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.roots.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Whether nobody is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Both bundles' roots.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self::new(self.roots.iter().chain(&other.roots).cloned())
    }

    /// The first moment at which one of the roots ends.
    #[must_use]
    pub fn not_after(&self) -> Option<OffsetDateTime> {
        let read = |der: &CertificateDer<'static>| Certificate::read(der.clone()).ok();
        self.roots
            .iter()
            .filter_map(read)
            .map(|c| c.not_after)
            .min()
    }

    /// For verification. What is no usable root is left out.
    #[must_use]
    pub fn store(&self) -> RootCertStore {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(self.roots.iter().cloned());
        store
    }
}

/// A short name for the content, for people to compare.
impl fmt::Display for TrustBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = Vec::new();
        for root in &self.roots {
            all.extend_from_slice(root);
        }
        write!(f, "{:016x}", xxh3_64(&all))
    }
}
