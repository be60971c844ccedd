//! In front of all services: nobody gets past it without proof.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{Request, Response, header};
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use tower::{Layer, Service};

use super::{Authenticator, Peer, Refusals, Refused};

/// Longest token that is looked at: projected service account tokens have about 1 KiB.
const MAX_TOKEN: usize = 16 << 10;

/// Whom a listener lets in.
#[derive(Clone)]
pub enum Gate {
    /// Everybody who can connect: pipes of this process, loopback, labs.
    Open(Peer),
    /// Who has a token.
    Tokens(Arc<dyn Authenticator>),
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(peer) => f.debug_tuple("Open").field(peer).finish(),
            Self::Tokens(_) => f.write_str("Tokens"),
        }
    }
}

impl Gate {
    async fn pass<B>(&self, request: &Request<B>) -> Result<Peer, Refused> {
        let authenticator = match self {
            Self::Open(peer) => return Ok(peer.clone()),
            Self::Tokens(authenticator) => authenticator,
        };
        let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(Refused::Missing);
        };
        let value = value.to_str().map_err(|_| Refused::Wrong)?;
        let (scheme, token) = value.split_once(' ').ok_or(Refused::Missing)?;
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
            return Err(Refused::Missing);
        }
        if token.len() > MAX_TOKEN {
            return Err(Refused::Wrong);
        }
        authenticator.authenticate(token).await
    }
}

/// Puts a [`Gate`] in front of a server's services, which find the [`Peer`] among a request's extensions.
#[derive(Clone, Debug)]
pub struct Authenticate {
    /// Whom to let in.
    pub gate: Gate,
    /// Where others are counted.
    pub refusals: Arc<Refusals>,
}

impl<S> Layer<S> for Authenticate {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded {
            gate: self.gate.clone(),
            refusals: Arc::clone(&self.refusals),
            inner,
        }
    }
}

/// A service behind a [`Gate`].
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    gate: Gate,
    refusals: Arc<Refusals>,
    inner: S,
}

impl<S, B> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The one that is ready is this one; the clone takes its place.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let (gate, refusals) = (self.gate.clone(), Arc::clone(&self.refusals));
        Box::pin(async move {
            // Nobody but the gate says who it is.
            request.extensions_mut().remove::<Peer>();
            // The body is looked at by nobody yet, and need not be shared between threads.
            let (mut head, body) = request.into_parts();
            let bare = Request::from_parts(head.clone(), ());
            match gate.pass(&bare).await {
                Ok(peer) => {
                    head.extensions.insert(peer);
                    inner.call(Request::from_parts(head, body)).await
                }
                Err(refused) => {
                    refusals.note("token", &who(&head), &refused.to_string());
                    Ok(status(&refused).into_http())
                }
            }
        })
    }
}

/// Its address, where there is one.
fn who(head: &Parts) -> String {
    let tls = head.extensions.get::<TlsConnectInfo<TcpConnectInfo>>();
    let tcp = tls.map(TlsConnectInfo::get_ref);
    let tcp = tcp.or_else(|| head.extensions.get::<TcpConnectInfo>());
    let address = tcp.and_then(TcpConnectInfo::remote_addr);
    address.map_or_else(|| "somebody".to_owned(), |address| address.to_string())
}

fn status(refused: &Refused) -> Status {
    match refused {
        Refused::Unavailable(_) => Status::unavailable(refused.to_string()),
        _ => Status::unauthenticated(refused.to_string()),
    }
}
