//! Connections to the control plane.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use weft_identity::token::Bearer;

/// A peer that is silent for this long is asked whether it lives, and dropped after as long again without an answer: a
/// half-open stream must not look like a quiet one.
pub const KEEPALIVE: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A full sync is megabytes; the default of 64 KiB would cost a round trip for each.
const WINDOW: u32 = 4 << 20;

/// A connection on which each request says who asks.
pub type ControlChannel = InterceptedService<Channel, Bearer>;

/// Opens connections to one control plane.
pub trait Connect: Send {
    /// A fresh connection.
    fn connect(&mut self) -> BoxFuture<'_, Result<ControlChannel, ConnectError>>;

    /// Address for people.
    fn target(&self) -> String;
}

/// No connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address cannot be written as one.
    #[error("{0:?} is not a control plane address: give ADDRESS:PORT")]
    Address(String),
    /// Roots or token cannot be used.
    #[error("{0}")]
    Security(String),
    /// The transport failed.
    #[error("cannot connect: {}", root(.0))]
    Transport(#[source] tonic::transport::Error),
}

/// What went wrong beneath "transport error".
fn root(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

pub(super) fn configure(endpoint: Endpoint, keepalive: Duration) -> Endpoint {
    endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(keepalive)
        .keep_alive_timeout(keepalive)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
}

/// Plain text over TCP.
#[derive(Clone, Debug)]
pub struct TcpConnect {
    /// "ADDRESS:PORT" or "NAME:PORT".
    pub address: String,
}

impl Connect for TcpConnect {
    fn connect(&mut self) -> BoxFuture<'_, Result<ControlChannel, ConnectError>> {
        Box::pin(async {
            let endpoint = Endpoint::from_shared(format!("http://{}", self.address))
                .map_err(|_| ConnectError::Address(self.address.clone()))?;
            let channel = configure(endpoint, KEEPALIVE).connect().await;
            let channel = channel.map_err(ConnectError::Transport)?;
            Ok(InterceptedService::new(channel, Bearer::none()))
        })
    }

    fn target(&self) -> String {
        self.address.clone()
    }
}

/// Makes the client's end of a pipe whose other end a server in this process has got.
type OpenPipe = dyn Fn() -> BoxFuture<'static, io::Result<DuplexStream>> + Send + Sync;

/// A server in the same process.
#[derive(Clone)]
pub struct InProcess {
    open: Arc<OpenPipe>,
    keepalive: Duration,
}

impl InProcess {
    /// Connections by `open`.
    pub fn new(
        open: impl Fn() -> BoxFuture<'static, io::Result<DuplexStream>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            open: Arc::new(open),
            keepalive: KEEPALIVE,
        }
    }

    /// Asks a silent server after another time than [`KEEPALIVE`] whether it lives.
    #[must_use]
    pub const fn with_keepalive(mut self, keepalive: Duration) -> Self {
        self.keepalive = keepalive;
        self
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

impl Connect for InProcess {
    fn connect(&mut self) -> BoxFuture<'_, Result<ControlChannel, ConnectError>> {
        Box::pin(async {
            let open = Arc::clone(&self.open);
            let connector = tower::service_fn(move |_| {
                let pipe = open();
                async { pipe.await.map(TokioIo::new) }
            });
            let endpoint = Endpoint::from_static("http://in-process");
            let channel = configure(endpoint, self.keepalive)
                .connect_with_connector(connector)
                .await;
            let channel = channel.map_err(ConnectError::Transport)?;
            Ok(InterceptedService::new(channel, Bearer::none()))
        })
    }

    fn target(&self) -> String {
        "in-process".to_owned()
    }
}
