//! X.509-SVIDs as their holder keeps them.
//!
//! See <https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md>.

use std::fmt;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

use crate::certificate::{Certificate, CertificateError, to_pem};
use crate::{SpiffeId, TrustBundle};

/// Why an answer of a CA is not the SVID that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SvidError {
    /// No certificates.
    #[error("the CA's answer: {0}")]
    Certificates(#[from] CertificateError),
    /// There is nothing but a leaf.
    #[error("the CA's answer names no root")]
    NoRoot,
    /// For somebody else.
    #[error("the certificate is for {found}, not for {wanted}")]
    Identity {
        /// Asked for.
        wanted: SpiffeId,
        /// In the certificate.
        found: String,
    },
    /// For another key.
    #[error("the certificate is for another key than the one it was asked for")]
    Key,
    /// A CA's own.
    #[error("the certificate is a CA's: nobody may have that as his own")]
    IsCa,
    /// Not signed by what comes after it.
    #[error("the CA's answer is no chain: {0:?} is not signed by the next")]
    Chain(String),
}

/// A certificate, what leads from it to the root, and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Svid {
    /// Whose it is.
    pub id: SpiffeId,
    /// The certificate itself.
    pub leaf: Certificate,
    /// It and what stands between it and the root, PEM.
    pub chain: String,
    /// PKCS #8, PEM.
    key: String,
}

impl fmt::Debug for Svid {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leaf = &self.leaf;
        write!(f, "{} until {}", self.id, leaf.not_after)
    }
}

impl Svid {
    /// Takes a CA's answer: the certificate first, roots last. Roots are told by being signed by themselves.
    ///
    /// # Errors
    /// When it is not what was asked for.
    pub fn accept(
        id: SpiffeId,
        key: String,
        answer: &str,
    ) -> Result<(Self, TrustBundle), SvidError> {
        let (roots, chain): (Vec<_>, Vec<_>) = Certificate::all(answer.as_bytes())?
            .into_iter()
            .partition(|c| c.is_ca && c.is_signed_by(c));
        let leaf = chain.first().cloned().ok_or(CertificateError::None)?;
        let last = chain.last().ok_or(CertificateError::None)?;
        if roots.is_empty() {
            return Err(SvidError::NoRoot);
        }
        if leaf.is_ca {
            return Err(SvidError::IsCa);
        }
        if leaf.uris.as_slice() != [id.to_string()] {
            let found = leaf.uris.join(", ");
            return Err(SvidError::Identity { wanted: id, found });
        }
        if !fits(&leaf, &key) {
            return Err(SvidError::Key);
        }
        let broken = chain.windows(2).find(|w| !w[0].is_signed_by(&w[1]));
        if let Some(pair) = broken {
            return Err(SvidError::Chain(pair[0].subject.clone()));
        }
        if !roots.iter().any(|root| last.is_signed_by(root)) {
            return Err(SvidError::Chain(last.subject.clone()));
        }
        let svid = Self {
            chain: to_pem(chain.iter().map(|c| &c.der)),
            id,
            leaf,
            key,
        };
        Ok((svid, TrustBundle::new(roots.into_iter().map(|c| c.der))))
    }

    /// The key, PKCS #8, PEM.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is left of its life.
    #[must_use]
    pub fn left(&self, now: OffsetDateTime) -> time::Duration {
        self.leaf.not_after - now
    }
}

/// Whether the certificate is for this key.
fn fits(leaf: &Certificate, key: &str) -> bool {
    let Ok(der) = PrivateKeyDer::from_pem_slice(key.as_bytes()) else {
        return false;
    };
    let Ok(key) = rustls::crypto::ring::sign::any_supported_type(&der) else {
        return false;
    };
    key.public_key()
        .is_some_and(|public| public.as_ref() == leaf.public_key())
}

#[cfg(test)]
mod tests;
