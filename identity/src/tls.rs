//! TLS between control plane and agents.
//!
//! The control plane's certificate is the mesh CA's, for one fixed name, which no workload's certificate has: they have URIs alone. So an agent may reach
//! it under any address.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring::{default_provider, sign::any_supported_type};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use crate::TrustBundle;

/// The name that every control plane's certificate has.
pub const CONTROL_NAME: &str = "control.weft.internal";

/// HTTP/2, and nothing else.
const ALPN: &[u8] = b"h2";

/// A server's certificate, replaced while it serves.
#[derive(Default)]
pub struct ServerIdentity(RwLock<Option<Arc<CertifiedKey>>>);

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerIdentity")
    }
}

impl ServerIdentity {
    /// Serves with this from now on. Connections that are open go on.
    ///
    /// # Errors
    /// When the key is of no kind that TLS knows.
    pub fn set(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: &PrivateKeyDer<'_>,
    ) -> Result<(), rustls::Error> {
        let certified = CertifiedKey::new(chain, any_supported_type(key)?);
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *held = Some(Arc::new(certified));
        Ok(())
    }
}

impl ResolvesServerCert for ServerIdentity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }
}

/// A server of TLS 1.3 with this certificate. Clients prove themselves by token, not by certificate.
///
/// # Errors
/// Never, with the provider that is built in.
pub fn server(identity: Arc<ServerIdentity>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(identity);
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// A client that trusts these roots, and no others.
///
/// # Errors
/// Never, with the provider that is built in.
pub fn client(roots: &TrustBundle) -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots.store())
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// [`CONTROL_NAME`] as TLS wants it.
///
/// # Errors
/// Never.
pub fn control_name() -> Result<ServerName<'static>, rustls::pki_types::InvalidDnsNameError> {
    ServerName::try_from(CONTROL_NAME)
}
