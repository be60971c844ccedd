//! The agent's side of ADS: one stream to the control plane, whatever server that is.
//!
//! Incremental ("delta") xDS, or state of the world with a server that has no other. A response is decoded here, applied by the
//! engine, and acknowledged after the tables are written; what a node cannot use is rejected resource by resource.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol>.

mod ack;
pub(crate) mod backoff;
mod connect;
mod decode;
mod delta;
mod memory;
mod session;
mod sotw;
mod status;
mod tls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tonic::Code;
use weft_proto::resource::ResourceType;

pub use connect::{Connect, ConnectError, ControlChannel, InProcess, KEEPALIVE, TcpConnect};
pub use status::{SharedStatus, XdsStatus};
pub use tls::{KnownRoots, TlsConnect};

use crate::engine::worker::{EngineHandle, EngineStopped};
use crate::metrics::Metrics;
use backoff::Backoff;
use memory::{Memory, Variant};
use session::{End, Session};

/// How the client behaves.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Name of this node: `Node.id`.
    pub node: String,
    /// Endpoints that the server has not sent after this time count as empty.
    pub endpoints_wait: Duration,
    /// Types that only Weft's control plane knows are not waited for any longer.
    pub optional_wait: Duration,
    /// A stream that held for this long starts the back-off anew.
    pub stable: Duration,
    /// First pause between attempts, at most.
    pub backoff_base: Duration,
    /// Longest pause between attempts.
    pub backoff_cap: Duration,
}

impl ClientConfig {
    /// Defaults for the node of this name.
    #[must_use]
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            endpoints_wait: Duration::from_secs(15),
            optional_wait: Duration::from_secs(3),
            stable: Duration::from_secs(10),
            backoff_base: Duration::from_millis(100),
            backoff_cap: Duration::from_secs(15),
        }
    }
}

/// The client and whom it talks to.
pub struct Client {
    /// Behaviour.
    pub config: ClientConfig,
    /// Opens connections.
    pub connect: Box<dyn Connect>,
    /// Where updates go.
    pub engine: EngineHandle,
    /// What others can see.
    pub status: SharedStatus,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Client {
    /// Keeps a stream to the control plane until `drain` is cancelled.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub async fn run(mut self, drain: CancellationToken) -> Result<(), EngineStopped> {
        let stopped = drain.clone();
        tokio::select! {
            biased;
            () = stopped.cancelled() => Ok(()),
            ended = self.keep_connected() => ended,
        }
    }

    async fn keep_connected(&mut self) -> Result<(), EngineStopped> {
        let mut memory = Memory::new();
        let mut backoff = Backoff::new(self.config.backoff_base, self.config.backoff_cap);
        loop {
            let began = Instant::now();
            let end = self.attempt(&mut memory).await;
            self.status.update(|s| s.connected = false);
            let reason = match end {
                End::EngineStopped => return Err(EngineStopped),
                End::Stream(status) => {
                    if self.adapt(&status, &mut memory) {
                        continue;
                    }
                    format!("{:?}: {}", status.code(), status.message())
                }
                End::Closed => "the control plane ended the stream".to_owned(),
                End::Connect(error) => error.to_string(),
            };
            if began.elapsed() >= self.config.stable {
                backoff.reset();
            }
            let pause = backoff.next();
            tracing::warn!(
                "control plane {}: {reason}; next attempt in {pause:?}",
                self.connect.target()
            );
            self.status.update(|s| s.last_error = Some(reason));
            self.metrics.reconnects.inc();
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(&mut self, memory: &mut Memory) -> End {
        let channel = match self.connect.connect().await {
            Ok(channel) => channel,
            Err(error) => return End::Connect(error),
        };
        let session = Session {
            config: &self.config,
            engine: &self.engine,
            status: &self.status,
            metrics: &self.metrics,
            memory,
        };
        match session.memory.variant {
            Variant::Delta => session.run::<delta::Delta>(channel).await,
            Variant::StateOfTheWorld => session.run::<sotw::StateOfTheWorld>(channel).await,
        }
    }

    /// Learns from a refusal what this server does not speak. True if another attempt can differ at once.
    fn adapt(&self, refusal: &tonic::Status, memory: &mut Memory) -> bool {
        let unknown = matches!(
            refusal.code(),
            Code::InvalidArgument | Code::Unimplemented | Code::NotFound
        );
        let named = ResourceType::ALL
            .into_iter()
            .find(|t| !t.is_envoy() && names_type(refusal.message(), *t));
        if let (true, Some(resource_type)) = (unknown, named) {
            tracing::info!("the control plane does not know {resource_type}: going on without");
            self.status.update(|s| {
                s.unsupported.insert(resource_type);
            });
            return memory.unsupported.insert(resource_type);
        }
        if refusal.code() == Code::Unimplemented && memory.variant == Variant::Delta {
            tracing::info!("the control plane has no delta xDS: using state of the world");
            memory.variant = Variant::StateOfTheWorld;
            return true;
        }
        false
    }
}

fn names_type(message: &str, resource_type: ResourceType) -> bool {
    let url = resource_type.type_url();
    url.split_once('/')
        .is_some_and(|(_, name)| message.contains(name))
}

#[cfg(test)]
mod tests;
