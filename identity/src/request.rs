//! A key, and the request to certify it (PKCS #10).

use rcgen::{CertificateParams, DistinguishedName, KeyPair, SanType};

use crate::SpiffeId;

/// A key cannot be made, or not be used.
#[derive(Debug, thiserror::Error)]
#[error("key and certificate request: {0}")]
pub struct RequestError(#[from] rcgen::Error);

/// A new key and the request for its certificate. The key is in this process alone.
pub struct KeyRequest {
    /// PKCS #8, PEM.
    pub key: String,
    /// PKCS #10, PEM.
    pub csr: String,
}

impl KeyRequest {
    /// Asks for the identity `id`: ECDSA on P-256, which every TLS library knows.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new(id: &SpiffeId) -> Result<Self, RequestError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI(id.to_string().try_into()?)];
        let csr = params.serialize_request(&key)?;
        Ok(Self {
            csr: csr.pem()?,
            key: key.serialize_pem(),
        })
    }
}
