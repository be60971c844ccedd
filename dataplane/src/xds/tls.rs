//! TLS to a control plane whose certificate leads to a root that this node trusts.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use rustls::{CertificateError, Error as TlsError};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Endpoint;
use weft_identity::TrustBundle;
use weft_identity::tls;
use weft_identity::token::{Bearer, TokenFile};

use super::connect::{Connect, ConnectError, ControlChannel, KEEPALIVE, configure};

/// Roots take no more.
const MAX_BUNDLE: u64 = 1 << 20;

/// The file of roots by which a control plane is known, and what the control plane has told of them since.
#[derive(Clone, Debug)]
pub struct KnownRoots {
    path: PathBuf,
    told: Arc<Mutex<Option<TrustBundle>>>,
}

impl KnownRoots {
    /// Those of a file, which is read anew for each connection.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            told: Arc::default(),
        }
    }

    /// Remembers what a control plane that was known has told: a new root is trusted before the file has it.
    pub fn learn(&self, bundle: &TrustBundle) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = Some(bundle.clone());
    }

    /// All of them now.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read(&self) -> Result<TrustBundle, String> {
        let path = self.path.display();
        let mut pem = Vec::new();
        let read = File::open(&self.path).and_then(|f| f.take(MAX_BUNDLE).read_to_end(&mut pem));
        read.map_err(|e| {
            format!("CA bundle {path}: {e}: copy the file that the control plane writes with --ca-bundle")
        })?;
        let file = TrustBundle::from_pem(&pem).map_err(|e| format!("CA bundle {path}: {e}"))?;
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(told
            .as_ref()
            .map_or_else(|| file.clone(), |told| file.with(told)))
    }
}

/// TLS over TCP, and a token on every request.
#[derive(Clone, Debug)]
pub struct TlsConnect {
    /// "ADDRESS:PORT" or "NAME:PORT".
    pub address: String,
    /// Whom the control plane's certificate has to lead to.
    pub roots: KnownRoots,
    /// What proves this node.
    pub token: TokenFile,
}

impl Connect for TlsConnect {
    fn connect(&mut self) -> BoxFuture<'_, Result<ControlChannel, ConnectError>> {
        Box::pin(async {
            let roots = self.roots.read().map_err(ConnectError::Security)?;
            // Told now, not as the refusal of a stream.
            let token = self.token.read();
            token.map_err(|e| ConnectError::Security(e.to_string()))?;
            let failed = |e: &dyn Error| ConnectError::Security(e.to_string());
            let config = tls::client(&roots).map_err(|e| failed(&e))?;
            let name = tls::control_name().map_err(|e| failed(&e))?;
            let (address, file) = (self.address.clone(), self.roots.path.clone());
            let connector = tower::service_fn(move |_: tonic::transport::Uri| {
                let (tls, name) = (TlsConnector::from(Arc::clone(&config)), name.clone());
                let (address, file) = (address.clone(), file.clone());
                async move {
                    let tcp = TcpStream::connect(&address).await?;
                    tcp.set_nodelay(true)?;
                    let tls = tls.connect(name, tcp).await;
                    tls.map(TokioIo::new).map_err(|e| explain(&e, &file))
                }
            });
            // The scheme is a word here: the connection is made above.
            let endpoint = Endpoint::from_shared(format!("http://{}", self.address))
                .map_err(|_| ConnectError::Address(self.address.clone()))?;
            let channel = configure(endpoint, KEEPALIVE)
                .connect_with_connector(connector)
                .await
                .map_err(ConnectError::Transport)?;
            Ok(InterceptedService::new(
                channel,
                Bearer::of(self.token.clone()),
            ))
        })
    }

    fn target(&self) -> String {
        self.address.clone()
    }
}

/// What a failed handshake means, and what to do.
fn explain(error: &io::Error, file: &Path) -> io::Error {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<TlsError>());
    let file = file.display();
    let text = match inner {
        Some(TlsError::InvalidCertificate(CertificateError::UnknownIssuer)) => format!(
            "the control plane's certificate leads to no root in {file}: copy the file that it writes with --ca-bundle anew, or this is another control plane"
        ),
        Some(TlsError::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => format!(
            "the control plane's certificate is not valid at this time: compare the clocks ({error})"
        ),
        Some(TlsError::InvalidMessage(_)) => {
            format!(
                "what listens there does not speak TLS: a control plane with --insecure, or another program ({error})"
            )
        }
        _ => format!("TLS: {error}"),
    };
    io::Error::new(error.kind(), text)
}
