//! Secrets over SDS, delta and state of the world: the agent's to its Envoy, and the trust bundle from the control plane to agents.
//!
//! A name that there is nothing of yet is answered once there is, as the protocol wants it: who waits for it warms up meanwhile.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol>.

mod client;
mod session;
mod stream;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use weft_proto::envoy::envoy::service::secret::v3::secret_discovery_service_server::{
    SecretDiscoveryService, SecretDiscoveryServiceServer,
};
use weft_proto::envoy::google::protobuf::Any;
use xxhash_rust::xxh3::xxh3_64;

pub use client::{Watched, watch_secret};

/// All secrets of one moment, by name.
#[derive(Clone, Default)]
pub struct Secrets(BTreeMap<String, Held>);

/// One, and what tells it from the one before.
#[derive(Clone)]
struct Held {
    version: u64,
    any: Arc<Any>,
}

impl fmt::Debug for Secrets {
    /// Names alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Secrets {
    /// Adds or replaces one.
    pub fn insert(&mut self, name: String, any: Any) {
        let version = xxh3_64(&any.value);
        let any = Arc::new(any);
        self.0.insert(name, Held { version, any });
    }

    /// Takes one away.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Whether there is one of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// Where the newest secrets are.
pub type SecretsReceiver = watch::Receiver<Arc<Secrets>>;

/// Serves secrets to any number of streams.
#[derive(Clone, Debug)]
pub struct SdsServer {
    secrets: SecretsReceiver,
    drain: CancellationToken,
}

impl SdsServer {
    /// A server whose streams end when `drain` is cancelled.
    #[must_use]
    pub const fn new(secrets: SecretsReceiver, drain: CancellationToken) -> Self {
        Self { secrets, drain }
    }

    /// As a tonic service.
    #[must_use]
    pub fn into_service(self) -> SecretDiscoveryServiceServer<Self> {
        SecretDiscoveryServiceServer::new(self)
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl SecretDiscoveryService for SdsServer {
    type DeltaSecretsStream = Responses<DeltaDiscoveryResponse>;
    type StreamSecretsStream = Responses<DiscoveryResponse>;

    async fn delta_secrets(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaSecretsStream>, Status> {
        let session = session::Delta::default();
        let (secrets, drain) = (self.secrets.clone(), self.drain.clone());
        let responses = stream::spawn(session, request.into_inner(), secrets, drain);
        Ok(Response::new(Box::pin(responses)))
    }

    async fn stream_secrets(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamSecretsStream>, Status> {
        let session = session::World::default();
        let (secrets, drain) = (self.secrets.clone(), self.drain.clone());
        let responses = stream::spawn(session, request.into_inner(), secrets, drain);
        Ok(Response::new(Box::pin(responses)))
    }

    async fn fetch_secrets(
        &self,
        _: Request<DiscoveryRequest>,
    ) -> Result<Response<DiscoveryResponse>, Status> {
        Err(Status::unimplemented("use a stream: secrets are renewed"))
    }
}
