//! The control plane as a whole.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic::{Request, Status as GrpcStatus};
use tower::layer::util::{Identity, Stack};
use weft_identity::TrustDomain;
use weft_identity::sds::SdsServer;
use weft_proto::envoy::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;

use crate::ads::{AdsServer, Nack, Nacks, Store, Stores};
use crate::auth::{Authenticate, Gate, Peer, Refusals};
use crate::ca::{Authority, Residents, SigningService};
use crate::engine::{Engine, Nodes, Settings};
use crate::feedback::{self, Board};
use crate::http;
use crate::source::Source;
use crate::source::folder::{Folder, FolderError};
use crate::source::kubernetes::Kubernetes;
use crate::status::Status;
use crate::tls::{TlsError, TlsServer};

/// Groups of events between source and engine; a full queue makes the source wait.
const QUEUE: usize = 1024;
/// A client that is gone without a word is noticed after these two together.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Tasks that end with the control plane have this long.
const FINISH: Duration = Duration::from_secs(3);

/// Where the cluster's objects are read.
#[derive(Clone, Debug)]
pub enum SourceConfig {
    /// A folder of manifests, watched.
    Folder(PathBuf),
    /// An API server.
    Kubernetes(Kubernetes),
}

/// What a control plane has to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the cluster's objects are read.
    pub source: SourceConfig,
    /// SPIFFE trust domain of all workloads, "cluster.local" by custom.
    pub trust_domain: String,
    /// Istio's root namespace, "istio-system" by custom: AuthorizationPolicies in it are for the whole mesh.
    pub root_namespace: String,
    /// All nodes of the mesh have certificates of the CA that this control plane is given: they can open mTLS tunnels to each other.
    pub tunnels: bool,
    /// Which nodes have an agent.
    pub nodes: Nodes,
}

/// Why a control plane cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The trust domain is not one.
    #[error(transparent)]
    TrustDomain(#[from] weft_identity::spiffe::NameError),
    /// No thread to compute on.
    #[error("cannot start the engine: {0}")]
    Thread(std::io::Error),
    /// TLS needs a certificate.
    #[error("TLS: this control plane has no CA")]
    NoCa,
    /// No certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The gRPC server failed.
    #[error("ADS server: {0}")]
    Ads(#[from] tonic::transport::Error),
    /// The HTTP server failed.
    #[error("status server: {0}")]
    Http(#[from] std::io::Error),
}

/// A running control plane. It stops when the token it was started with is cancelled.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    store: Arc<Store>,
    envoys: Arc<Store>,
    nacks: Arc<Nacks>,
    residents: Arc<Residents>,
    authority: Option<Arc<Authority>>,
    refusals: Arc<Refusals>,
    drain: CancellationToken,
    /// What has something to finish when all stops.
    tasks: TaskTracker,
    /// Where its objects come from, if that is an API server.
    kubernetes: Option<Kubernetes>,
}

impl ControlPlane {
    /// Starts reading. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// When the folder cannot be read, or the trust domain is not one.
    pub fn start(config: Config, drain: CancellationToken) -> Result<Self, ControlError> {
        config.trust_domain.parse::<TrustDomain>()?;
        let settings = Settings {
            trust_domain: config.trust_domain,
            root_namespace: config.root_namespace,
            tunnels: config.tunnels,
            nodes: config.nodes,
        };
        match config.source {
            SourceConfig::Folder(path) => {
                Self::start_with(Folder::open(path)?, settings, None, drain)
            }
            SourceConfig::Kubernetes(source) => {
                let board = Arc::new(Board::default());
                let writer = feedback::run(source.client(), Arc::clone(&board), drain.clone());
                let kubernetes = Some(source.clone());
                let mut plane = Self::start_with(source, settings, Some(board), drain)?;
                plane.tasks.spawn(writer);
                plane.kubernetes = kubernetes;
                Ok(plane)
            }
        }
    }

    /// Starts with any source.
    fn start_with<S: Source>(
        source: S,
        settings: Settings,
        board: Option<Arc<Board>>,
        drain: CancellationToken,
    ) -> Result<Self, ControlError> {
        let store = Arc::new(Store::default());
        let (sender, receiver) = mpsc::channel(QUEUE);
        let mut engine = Engine::new(Arc::clone(&store), settings);
        if let Some(board) = board {
            engine = engine.telling(board);
        }
        let (envoys, residents) = (engine.envoys(), engine.residents());
        // It computes for long and waits for long, and ends when the source does.
        std::thread::Builder::new()
            .name("weft-engine".to_owned())
            .spawn(move || engine.run(receiver))
            .map_err(ControlError::Thread)?;
        let token = drain.clone();
        tokio::spawn(async move {
            if let Err(error) = source.run(sender, token).await {
                tracing::error!(%error, "changes are not seen any more");
            }
        });
        Ok(Self {
            store,
            envoys,
            nacks: Arc::default(),
            residents,
            authority: None,
            refusals: Arc::default(),
            drain,
            tasks: TaskTracker::new(),
            kubernetes: None,
        })
    }

    /// The API server that its objects come from; `None` for a folder.
    #[must_use]
    pub const fn kubernetes(&self) -> Option<&Kubernetes> {
        self.kubernetes.as_ref()
    }

    /// Issues certificates with `authority` from now on.
    #[must_use]
    pub fn with_authority(mut self, authority: Arc<Authority>) -> Self {
        tokio::spawn(Arc::clone(&authority).run(self.drain.clone()));
        self.authority = Some(authority);
        self
    }

    /// The CA, if this control plane is one.
    #[must_use]
    pub const fn authority(&self) -> Option<&Arc<Authority>> {
        self.authority.as_ref()
    }

    /// All services, behind a gate, to be served over any transport.
    #[must_use]
    pub fn server(&self, gate: Gate) -> Router<Stack<Authenticate, Identity>> {
        let mut router = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .tcp_nodelay(true)
            .layer(Authenticate {
                gate,
                refusals: Arc::clone(&self.refusals),
            })
            .add_service(self.ads());
        if let Some(authority) = &self.authority {
            let (residents, store) = (Arc::clone(&self.residents), Arc::clone(&self.store));
            let sign = SigningService::new(Arc::clone(authority), residents, store);
            let secrets = SdsServer::new(authority.secrets(), self.drain.clone());
            router = router.add_service(sign).add_service(secrets.into_service());
        }
        router
    }

    /// The ADS service alone, for whoever can reach it.
    #[must_use]
    pub fn ads_service(
        &self,
    ) -> InterceptedService<AggregatedDiscoveryServiceServer<AdsServer>, Trusting> {
        InterceptedService::new(self.ads(), trusting as Trusting)
    }

    fn ads(&self) -> AggregatedDiscoveryServiceServer<AdsServer> {
        AdsServer::new(
            Stores {
                agents: Arc::clone(&self.store),
                envoys: Arc::clone(&self.envoys),
            },
            Arc::clone(&self.nacks),
            self.drain.clone(),
        )
        .into_service()
    }

    /// Serves agents in plain text, whoever they are, until the control plane is stopped.
    ///
    /// # Errors
    /// When the server fails as a whole.
    pub async fn serve(&self, listener: TcpListener) -> Result<(), ControlError> {
        self.server(Gate::Open(Peer::AnyNode))
            .serve_with_incoming_shutdown(
                TcpListenerStream::new(listener),
                self.drain.clone().cancelled_owned(),
            )
            .await?;
        self.finish().await;
        Ok(())
    }

    async fn finish(&self) {
        self.tasks.close();
        // What is not done by then others will do.
        let _ = tokio::time::timeout(FINISH, self.tasks.wait()).await;
    }

    /// Serves agents over TLS with a certificate of this control plane's CA, and only those that `gate` lets in, until the control plane is stopped.
    ///
    /// # Errors
    /// When there is no certificate, or the server fails as a whole.
    pub async fn serve_tls(&self, listener: TcpListener, gate: Gate) -> Result<(), ControlError> {
        let authority = self.authority.clone().ok_or(ControlError::NoCa)?;
        let tls = TlsServer::new(authority, listener.local_addr()?.ip(), &self.refusals)?;
        let connections = tls.serve(listener, self.drain.clone())?;
        self.server(gate)
            .serve_with_incoming_shutdown(connections, self.drain.clone().cancelled_owned())
            .await?;
        self.finish().await;
        Ok(())
    }

    /// Serves `/status`, `/metrics`, `/healthz` and `/readyz` until the control plane is stopped.
    ///
    /// # Errors
    /// When the server fails as a whole.
    pub async fn serve_http(&self, listener: TcpListener) -> Result<(), ControlError> {
        axum::serve(listener, http::router(self.clone()))
            .with_graceful_shutdown(self.drain.clone().cancelled_owned())
            .await?;
        Ok(())
    }

    /// Returns once everything that was there at the start is known, or never when the control plane stops first.
    pub async fn synced(&self) {
        self.store.synced().await;
    }

    /// Whether everything that was there at the start is known.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.store.is_synced()
    }

    /// What nodes have refused and not taken since.
    #[must_use]
    pub fn nacks(&self) -> Vec<Nack> {
        self.nacks.list()
    }

    /// Everything an operator wants to see at once.
    #[must_use]
    pub fn status(&self) -> Status {
        let ca = self.authority.as_ref().map(|ca| ca.status());
        Status::of(&self.store, &self.nacks, self.refusals.counts(), ca)
    }
}

/// Lets everybody in.
pub type Trusting = fn(Request<()>) -> Result<Request<()>, GrpcStatus>;

fn trusting(mut request: Request<()>) -> Result<Request<()>, GrpcStatus> {
    request.extensions_mut().insert(Peer::AnyNode);
    Ok(request)
}
