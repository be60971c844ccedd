//! The control plane's TLS listener: its certificate is its own CA's, and renewed while it serves.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use time::OffsetDateTime;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use weft_identity::tls::{self, CONTROL_NAME, ServerIdentity};

use crate::auth::Refusals;
use crate::ca::{Authority, IssueError};

/// Handshakes under way at once: each costs a signature, and a client that is silent holds its place for [`HANDSHAKE_WITHIN`].
const HANDSHAKES: usize = 256;
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Accepting failed for want of something: there may be more of it later.
const PAUSE: Duration = Duration::from_millis(100);
/// How often to look whether the certificate is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The CA refuses.
    #[error("the control plane's certificate: {0}")]
    Issue(#[from] IssueError),
    /// The library does.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// What serves TLS on a listener.
pub(crate) struct TlsServer {
    authority: Arc<Authority>,
    identity: Arc<ServerIdentity>,
    names: Vec<String>,
    acceptor: TlsAcceptor,
    refusals: Arc<Refusals>,
}

impl TlsServer {
    /// With a certificate for [`CONTROL_NAME`], for `listen` and for this machine.
    pub(crate) fn new(
        authority: Arc<Authority>,
        listen: IpAddr,
        refusals: &Arc<Refusals>,
    ) -> Result<Self, TlsError> {
        let identity = Arc::new(ServerIdentity::default());
        let acceptor = tls::server(Arc::clone(&identity))?.into();
        Ok(Self {
            authority,
            identity,
            names: names(listen),
            acceptor,
            refusals: Arc::clone(refusals),
        })
    }

    /// A new certificate. Returns until when it holds, and who has issued it.
    fn renew(&self) -> Result<(OffsetDateTime, String), TlsError> {
        let now = OffsetDateTime::now_utc();
        let made = self.authority.server(self.names.clone(), now)?;
        let key = PrivatePkcs8KeyDer::from(made.key.serialize_der());
        self.identity.set(made.chain, &PrivateKeyDer::from(key))?;
        let due = now + (made.not_after - now) * 2 / 3;
        Ok((due, made.issuer))
    }

    /// Accepts connections until `drain` is cancelled.
    pub(crate) fn serve(
        self,
        listener: TcpListener,
        drain: CancellationToken,
    ) -> Result<impl Stream<Item = io::Result<TlsStream<TcpStream>>>, TlsError> {
        let first = self.renew()?;
        let (ready, connections) = mpsc::channel(HANDSHAKES);
        let refusals = Arc::clone(&self.refusals);
        let accept = accept(listener, self.acceptor.clone(), ready, refusals);
        tokio::spawn(async move {
            tokio::select! {
                () = drain.cancelled() => {}
                () = accept => {}
                () = self.keep(first) => {}
            }
        });
        Ok(ReceiverStream::new(connections))
    }

    /// Renews the certificate at two thirds of its life, and when another CA issues.
    async fn keep(&self, (mut due, mut issuer): (OffsetDateTime, String)) {
        loop {
            sleep(LOOK_EVERY).await;
            if OffsetDateTime::now_utc() < due && self.authority.issuer() == issuer {
                continue;
            }
            match self.renew() {
                Ok(renewed) => (due, issuer) = renewed,
                Err(e) => tracing::error!("{e}; the one that there is stays"),
            }
        }
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    ready: mpsc::Sender<io::Result<TlsStream<TcpStream>>>,
    refusals: Arc<Refusals>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (tcp, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(e) => {
                tracing::warn!("a connection was not accepted: {e}");
                sleep(PAUSE).await;
                continue;
            }
        };
        let _ = tcp.set_nodelay(true);
        let (handshake, ready) = (acceptor.accept(tcp), ready.clone());
        let refusals = Arc::clone(&refusals);
        tokio::spawn(async move {
            match timeout(HANDSHAKE_WITHIN, handshake).await {
                Ok(Ok(tls)) => {
                    let _ = ready.send(Ok(tls)).await;
                }
                Ok(Err(e)) => refusals.note("tls", &peer.to_string(), &format!("no TLS: {e}")),
                Err(_) => {
                    let late = format!("no TLS within {HANDSHAKE_WITHIN:?}");
                    refusals.note("tls", &peer.to_string(), &late);
                }
            }
            drop(place);
        });
    }
}

/// Names for clients that check the address; agents look for the first.
fn names(listen: IpAddr) -> Vec<String> {
    let mut names = vec![CONTROL_NAME.to_owned(), "localhost".to_owned()];
    names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
    if !listen.is_unspecified() && !listen.is_loopback() {
        names.push(listen.to_canonical().to_string());
    }
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .to_lowercase();
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if !host.is_empty() && host.len() < 254 && host.chars().all(legal) {
        names.push(host);
    }
    names
}
