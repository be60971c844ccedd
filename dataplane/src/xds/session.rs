//! One stream, from its first request to its end.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use futures::{Stream, StreamExt, stream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use weft_proto::envoy::envoy::config::core::v3::Node;
use weft_proto::resource::ResourceType;

use super::decode::Decoded;
use super::memory::Memory;
use super::{ClientConfig, ConnectError, ControlChannel, SharedStatus};
use crate::compile::LocalityPool;
use crate::engine::worker::EngineHandle;
use crate::engine::{Applied, Rejection, Update};
use crate::metrics::Metrics;

/// A response larger than this ends the stream.
pub(super) const LARGEST_RESPONSE: usize = 128 << 20;
/// Requests on their way to a server that reads slowly.
const REQUEST_QUEUE: usize = 16;
/// A response with more resources is decoded on a thread of its own.
const DECODE_INLINE: usize = 64;

/// Rejections of one response that are logged one by one.
const LOGGED_REJECTIONS: usize = 20;

/// What differs between the two flavours of ADS.
pub(super) trait Protocol: 'static {
    type Request: Send + Default + 'static;
    type Response: Send + 'static;

    fn open(
        channel: ControlChannel,
        requests: impl Stream<Item = Self::Request> + Send + 'static,
    ) -> BoxFuture<'static, Result<Streaming<Self::Response>, Status>>;
    fn set_node(request: &mut Self::Request, node: Node);
    /// The first requests on a stream.
    fn initial(memory: &Memory) -> Vec<Self::Request>;
    /// Asks for more or fewer endpoints; `memory` has the names after the change.
    fn subscribe(memory: &Memory, more: &[String], less: &[String]) -> Vec<Self::Request>;
    fn type_url(response: &Self::Response) -> &str;
    fn nonce(response: &Self::Response) -> &str;
    fn version(response: &Self::Response) -> &str;
    /// Whether this is part of an answer that goes on in the next response.
    fn more_follows(_: &Self::Response) -> bool {
        false
    }
    /// Resources in it.
    fn size(response: &Self::Response) -> usize;
    fn decode(
        resource_type: ResourceType,
        response: Self::Response,
        pool: &mut LocalityPool,
    ) -> Decoded;
    fn acknowledge(answer: &Answer<'_>, memory: &mut Memory) -> Self::Request;
}

/// What is said about a response.
pub(super) struct Answer<'a> {
    pub(super) resource_type: ResourceType,
    pub(super) nonce: &'a str,
    pub(super) version: &'a str,
    pub(super) rejected: &'a [Rejection],
}

/// Why a stream is over.
pub(super) enum End {
    Connect(ConnectError),
    Stream(Status),
    Closed,
    EngineStopped,
}

pub(super) struct Session<'a> {
    pub(super) config: &'a ClientConfig,
    pub(super) engine: &'a EngineHandle,
    pub(super) status: &'a SharedStatus,
    pub(super) metrics: &'a Arc<Metrics>,
    pub(super) memory: &'a mut Memory,
}

impl Session<'_> {
    pub(super) async fn run<P: Protocol>(mut self, channel: ControlChannel) -> End {
        self.memory.nonces.clear();
        let mut initial = P::initial(self.memory);
        if let Some(first) = initial.first_mut() {
            P::set_node(first, node(&self.config.node));
        }
        let (requests, queue) = mpsc::channel(REQUEST_QUEUE);
        // Some servers send no headers before their first response: the first requests must not wait for them.
        let all = stream::iter(initial).chain(ReceiverStream::new(queue));
        let mut responses = match P::open(channel, all).await {
            Ok(responses) => responses,
            Err(status) => return End::Stream(status),
        };
        self.memory.first_stream.get_or_insert_with(Instant::now);
        self.status.update(|s| s.connected = true);
        let mut pool = LocalityPool::default();
        loop {
            let deadline = self.memory.next_deadline(
                self.config.endpoints_wait,
                self.config.optional_wait,
                Instant::now(),
            );
            let received = tokio::select! {
                biased;
                received = responses.message() => Some(received),
                () = sleep_until(deadline) => None,
            };
            let step = match received {
                Some(Ok(Some(response))) => self.receive::<P>(response, &mut pool, &requests).await,
                Some(Ok(None)) => Err(End::Closed),
                Some(Err(status)) => Err(End::Stream(status)),
                None => self.give_up_waiting().await,
            };
            let step = match step {
                Ok(()) => self.check_synced().await,
                Err(end) => Err(end),
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    async fn receive<P: Protocol>(
        &mut self,
        response: P::Response,
        pool: &mut LocalityPool,
        requests: &mpsc::Sender<P::Request>,
    ) -> Result<(), End> {
        let received = Instant::now();
        let url = P::type_url(&response).to_owned();
        let known = ResourceType::from_type_url(&url);
        let Some(resource_type) = known.filter(|t| self.memory.is_subscribed(*t)) else {
            // An answer would look like a subscription to it.
            tracing::warn!("passing over a response of type {url:?}, which was not asked for");
            return Ok(());
        };
        let metrics = Arc::clone(&self.metrics);
        let behind = metrics.lag.received(received);
        let nonce = P::nonce(&response).to_owned();
        let version = P::version(&response).to_owned();
        let more_follows = P::more_follows(&response);
        let decoded = decode::<P>(resource_type, response, pool).await;
        let (applied, count) = self.apply(resource_type, decoded).await?;
        drop(behind);
        self.metrics
            .applied(resource_type, received.elapsed(), count);
        self.status.update(|s| {
            s.received.insert(resource_type, nonce.clone());
        });
        if !more_follows {
            self.memory.answered.insert(resource_type);
        }
        self.change_subscriptions::<P>(&applied, requests).await?;
        log_rejections(resource_type, &applied.rejected);
        // Without a nonce there is nothing to refer to.
        if !nonce.is_empty() {
            self.memory.nonces.insert(resource_type, nonce.clone());
            let answer = Answer {
                resource_type,
                nonce: &nonce,
                version: &version,
                rejected: &applied.rejected,
            };
            let request = P::acknowledge(&answer, self.memory);
            send(requests, request).await?;
        }
        Ok(())
    }

    async fn apply(
        &mut self,
        resource_type: ResourceType,
        mut decoded: Decoded,
    ) -> Result<(Applied, usize), End> {
        if resource_type == ResourceType::Endpoints {
            let asked = &self.memory.endpoints;
            decoded
                .update
                .upserts
                .retain(|(name, _)| asked.contains_key(name));
            decoded
                .versions
                .retain(|(name, _)| asked.contains_key(name));
        }
        let undecoded = decoded.update.rejected.clone();
        let removed = decoded.update.removals.clone();
        if decoded.update.replace {
            self.memory.versions.remove(&resource_type);
        }
        let count = decoded.versions.len();
        let applied = self.engine.apply(decoded.update).await;
        let applied = applied.map_err(|_| End::EngineStopped)?;
        self.remember(resource_type, decoded.versions, &removed, &applied);
        if resource_type == ResourceType::Endpoints {
            // A name that was answered with nonsense will not be answered better by waiting.
            let names = undecoded.iter().map(|r| &r.name).chain(&removed);
            names.for_each(|name| self.memory.answered_endpoints(name));
            self.note_missing();
        }
        Ok((applied, count))
    }

    /// What is held from now on: nothing that was rejected.
    fn remember(
        &mut self,
        resource_type: ResourceType,
        versions: Vec<(String, String)>,
        removed: &[String],
        applied: &Applied,
    ) {
        let rejected: HashSet<&str> = applied.rejected.iter().map(|r| r.name.as_str()).collect();
        for name in removed {
            self.memory.forget(resource_type, name);
        }
        for (name, version) in versions {
            if resource_type == ResourceType::Endpoints {
                self.memory.answered_endpoints(&name);
                self.status.update(|s| {
                    s.missing_endpoints.remove(&name);
                });
            }
            let version = match rejected.contains(name.as_str()) {
                true => String::new(),
                false => version,
            };
            let held = self.memory.versions.entry(resource_type).or_default();
            held.insert(name, version);
        }
    }

    async fn change_subscriptions<P: Protocol>(
        &mut self,
        applied: &Applied,
        requests: &mpsc::Sender<P::Request>,
    ) -> Result<(), End> {
        let (more, less) = (&applied.subscribe, &applied.unsubscribe);
        if more.is_empty() && less.is_empty() {
            return Ok(());
        }
        self.memory.unsubscribe(less);
        self.memory.subscribe(more, Instant::now());
        self.note_missing();
        for request in P::subscribe(self.memory, more, less) {
            send(requests, request).await?;
        }
        Ok(())
    }

    /// Some servers never say that they have no endpoints of a name.
    async fn give_up_waiting(&mut self) -> Result<(), End> {
        let wait = self.config.endpoints_wait;
        let names = self.memory.overdue(wait, Instant::now());
        if names.is_empty() {
            return Ok(());
        }
        tracing::warn!(
            "the control plane sent no endpoints for {} cluster(s) within {wait:?}: they count as empty",
            names.len()
        );
        for name in &names {
            self.memory.answered_endpoints(name);
        }
        self.status
            .update(|s| s.missing_endpoints.extend(names.iter().cloned()));
        let mut update = Update::new(ResourceType::Endpoints);
        update.removals = names;
        let applied = self.engine.apply(update).await;
        applied.map(drop).map_err(|_| End::EngineStopped)
    }

    async fn check_synced(&mut self) -> Result<(), End> {
        let now = Instant::now();
        if !self.memory.policies_known && self.memory.knows_policies() {
            let told = self.engine.policies_known().await;
            told.map_err(|_| End::EngineStopped)?;
            self.memory.policies_known = true;
        }
        if !self.memory.synced && self.memory.is_complete(self.config.optional_wait, now) {
            self.engine.synced().await.map_err(|_| End::EngineStopped)?;
            self.memory.synced = true;
            self.status.update(|s| s.synced = true);
            tracing::info!("in sync with the control plane");
        }
        Ok(())
    }

    fn note_missing(&self) {
        let asked = &self.memory.endpoints;
        let awaited = asked.values().filter(|a| !a.answered).count();
        self.status.update(|s| {
            s.missing_endpoints.retain(|name| asked.contains_key(name));
            s.awaited_endpoints = awaited;
        });
    }
}

/// All of them are in status and NACK; a log is not the place for a hundred thousand lines.
fn log_rejections(resource_type: ResourceType, rejected: &[Rejection]) {
    for rejection in rejected.iter().take(LOGGED_REJECTIONS) {
        tracing::warn!("{resource_type} {}: {}", rejection.name, rejection.reason);
    }
    if let Some(more) = rejected.len().checked_sub(LOGGED_REJECTIONS + 1) {
        tracing::warn!("and {} more of type {resource_type}", more + 1);
    }
}

/// Off the async runtime when it may take long.
async fn decode<P: Protocol>(
    resource_type: ResourceType,
    response: P::Response,
    pool: &mut LocalityPool,
) -> Decoded {
    if P::size(&response) <= DECODE_INLINE {
        return P::decode(resource_type, response, pool);
    }
    let mut own = std::mem::take(pool);
    let task = tokio::task::spawn_blocking(move || {
        let decoded = P::decode(resource_type, response, &mut own);
        (decoded, own)
    });
    match task.await {
        Ok((decoded, own)) => {
            *pool = own;
            decoded
        }
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        // The runtime is going down: nobody will look at this.
        Err(_) => std::future::pending().await,
    }
}

async fn send<R>(requests: &mpsc::Sender<R>, request: R) -> Result<(), End> {
    let sent = requests.send(request).await;
    sent.map_err(|_| End::Closed)
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

fn node(name: &str) -> Node {
    use weft_proto::envoy::envoy::config::core::v3::node::UserAgentVersionType;
    use weft_proto::envoy::google::protobuf::{Struct, Value, value::Kind};
    let version = env!("CARGO_PKG_VERSION");
    let field = |name: &str, value: &str| {
        let kind = Some(Kind::StringValue(value.to_owned()));
        (name.to_owned(), Value { kind })
    };
    Node {
        id: name.to_owned(),
        cluster: "weft".to_owned(),
        metadata: Some(Struct {
            fields: [field("node", name), field("version", version)].into(),
        }),
        user_agent_name: "weft-agent".to_owned(),
        user_agent_version_type: Some(UserAgentVersionType::UserAgentVersion(version.to_owned())),
        ..Default::default()
    }
}
