//! Certificates for workloads and for the control plane.

use std::time::Duration;

use rcgen::{CertificateSigningRequestParams, KeyPair, SanType};
use time::OffsetDateTime;
use weft_identity::SpiffeId;
use weft_identity::certificate::to_pem;

use super::Authority;
use super::make::{self, CLOCK_SKEW, MakeError, Names};
use super::material::Material;

/// No request is longer, also with an RSA key of 16,384 bits.
const MAX_CSR: usize = 32 << 10;

/// Why a request is not signed.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// Not a request, or not signed by its own key.
    #[error("the certificate request is not PKCS #10 in PEM, or not signed by its own key: {0}")]
    Request(String),
    /// Not exactly one name.
    #[error(
        "the certificate request has to have exactly one name, a URI spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT"
    )]
    Names,
    /// Not a name of ours.
    #[error(transparent)]
    Identity(#[from] weft_identity::spiffe::NameError),
    /// The CA itself has come to its end.
    #[error("the CA's own certificate ends now: renew it")]
    Ended,
    /// Signing failed.
    #[error(transparent)]
    Make(#[from] MakeError),
}

/// A certificate request that was read, and whose it is to be.
pub(super) struct Request {
    csr: CertificateSigningRequestParams,
    pub(super) id: SpiffeId,
}

impl Request {
    /// Reads a request. Nothing in it counts but the key, of which it proves possession, and the one name.
    pub(super) fn read(pem: &str) -> Result<Self, IssueError> {
        if pem.len() > MAX_CSR {
            return Err(IssueError::Request(format!("longer than {MAX_CSR} bytes")));
        }
        let csr = CertificateSigningRequestParams::from_pem(pem);
        let csr = csr.map_err(|e| IssueError::Request(e.to_string()))?;
        let [SanType::URI(uri)] = csr.params.subject_alt_names.as_slice() else {
            return Err(IssueError::Names);
        };
        let id = uri.as_str().parse()?;
        Ok(Self { csr, id })
    }
}

/// The control plane's own certificate and key.
pub(crate) struct ServerCertificate {
    pub(crate) chain: Vec<rustls::pki_types::CertificateDer<'static>>,
    pub(crate) key: KeyPair,
    pub(crate) not_after: OffsetDateTime,
    /// Serial number of what has signed it.
    pub(crate) issuer: String,
}

impl Authority {
    /// Signs a workload's request for `life` at most (zero: as long as this CA gives).
    ///
    /// Returns PEM: the certificate, what is between it and the root, and all roots in one.
    pub(super) fn sign(
        &self,
        request: &Request,
        life: Duration,
        now: OffsetDateTime,
    ) -> Result<Vec<String>, IssueError> {
        let material = self.material();
        let most = self.config.svid_life;
        let life = if life.is_zero() { most } else { life.min(most) };
        let valid = validity(&material, life, now)?;
        let (domain, key) = (&self.config.trust_domain, &request.csr.public_key);
        let names = Names::Spiffe(request.id.to_string());
        let leaf = make::leaf(names, domain, key, material.issuer(), valid)?;
        self.count_issued();
        Ok(vec![
            to_pem([&leaf.der]),
            material.chain_pem(),
            material.bundle().pem(),
        ])
    }

    /// A certificate for a server of these names, as long as a workload's.
    pub(crate) fn server(
        &self,
        names: Vec<String>,
        now: OffsetDateTime,
    ) -> Result<ServerCertificate, IssueError> {
        let material = self.material();
        let key = KeyPair::generate().map_err(MakeError::from)?;
        let valid = validity(&material, self.config.svid_life, now)?;
        let domain = &self.config.trust_domain;
        let leaf = make::leaf(Names::Server(names), domain, &key, material.issuer(), valid)?;
        let mut chain = vec![leaf.der];
        chain.extend(material.chain().iter().map(|ca| ca.der.clone()));
        Ok(ServerCertificate {
            chain,
            key,
            not_after: leaf.not_after,
            issuer: material.issuing().serial.clone(),
        })
    }
}

/// From before now, for clocks that are behind, and never longer than what vouches for it.
fn validity(
    material: &Material,
    life: Duration,
    now: OffsetDateTime,
) -> Result<(OffsetDateTime, OffsetDateTime), IssueError> {
    let end = (now + life).min(material.not_after());
    if end <= now {
        return Err(IssueError::Ended);
    }
    Ok((now - CLOCK_SKEW, end))
}
