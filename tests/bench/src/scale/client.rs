//! A synthetic agent: asks for what an agent asks for, acknowledges all, decodes nothing but names.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;
use weft_proto::envoy::envoy::config::core::v3::Node;
use weft_proto::envoy::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use weft_proto::resource::ResourceType;

const METHOD: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
/// As the agent does.
const NAMES_PER_REQUEST: usize = 5_000;

/// `envoy.service.discovery.v3.DeltaDiscoveryResponse`, but for what is in the resources.
#[derive(Clone, PartialEq, prost::Message)]
struct Response {
    #[prost(message, repeated, tag = "2")]
    resources: Vec<Named>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Named {
    /// Not looked into.
    #[prost(bytes = "bytes", tag = "2")]
    resource: prost::bytes::Bytes,
    #[prost(string, tag = "3")]
    name: String,
}

/// What was sent since the last reset, to all agents together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) responses: u64,
    pub(super) resources: u64,
    /// Those of them that are ClusterLoadAssignments.
    pub(super) endpoints: u64,
}

/// Where all agents count.
pub(super) struct Sink {
    agents: u64,
    /// What each gets by wildcards.
    expected: u64,
    synced: AtomicU64,
    responses: AtomicU64,
    resources: AtomicU64,
    endpoints: AtomicU64,
    bytes: AtomicU64,
    changed: Notify,
}

impl Sink {
    pub(super) fn new(agents: u32, expected: u64) -> Self {
        Self {
            agents: agents.into(),
            expected,
            synced: AtomicU64::new(0),
            responses: AtomicU64::new(0),
            resources: AtomicU64::new(0),
            endpoints: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    pub(super) fn reset(&self) {
        for counter in [&self.responses, &self.resources, &self.endpoints] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn seen(&self) -> Seen {
        Seen {
            responses: self.responses.load(Ordering::Relaxed),
            resources: self.resources.load(Ordering::Relaxed),
            endpoints: self.endpoints.load(Ordering::Relaxed),
        }
    }

    /// Resources and their names, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) async fn wait_synced(&self, agents: u32, within: Duration) -> Result<()> {
        let have = || self.synced.load(Ordering::Relaxed);
        self.wait(|| have() >= agents.into(), within)
            .await
            .with_context(|| format!("{} of {agents} agents are in sync", have()))
    }

    pub(super) async fn wait_seen(&self, resources: u32, within: Duration) -> Result<()> {
        self.wait(|| self.seen().resources >= resources.into(), within)
            .await
            .with_context(|| format!("{:?} of {} agents", self.seen(), self.agents))
    }

    async fn wait(&self, done: impl Fn() -> bool, within: Duration) -> Result<()> {
        tokio::time::timeout(within, async {
            loop {
                let changed = self.changed.notified();
                if done() {
                    return;
                }
                changed.await;
            }
        })
        .await
        .context("not in time")
    }

    fn count(&self, kind: Option<ResourceType>, response: &Response) {
        let resources = response.resources.len() as u64;
        let sizes = response
            .resources
            .iter()
            .map(|r| r.name.len() + r.resource.len());
        self.bytes
            .fetch_add(sizes.sum::<usize>() as u64, Ordering::Relaxed);
        self.responses.fetch_add(1, Ordering::Relaxed);
        if kind == Some(ResourceType::Endpoints) {
            self.endpoints.fetch_add(resources, Ordering::Relaxed);
        }
        let before = self.resources.fetch_add(resources, Ordering::Relaxed);
        if before + resources >= self.agents {
            self.changed.notify_one();
        }
    }
}

/// Connects as the `number`th agent, and stays.
pub(super) async fn run(control: SocketAddr, number: u32, sink: Arc<Sink>) -> Result<()> {
    let endpoint = Endpoint::from_shared(format!("http://{control}"))?;
    let channel = loop {
        match endpoint.connect().await {
            Ok(channel) => break channel,
            // It has not bound its port yet.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let (requests, queue) = mpsc::channel(64);
    let wildcards: Vec<ResourceType> = ResourceType::ALL
        .into_iter()
        .filter(|t| t.is_for_agents() && *t != ResourceType::Endpoints)
        .collect();
    for (index, kind) in wildcards.iter().enumerate() {
        let mut first = request(*kind);
        first.node = (index == 0).then(|| Node {
            id: format!("node-{number:04}"),
            ..Node::default()
        });
        requests.send(first).await?;
    }
    let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(64 << 20);
    client.ready().await?;
    let codec: ProstCodec<DeltaDiscoveryRequest, Response> = ProstCodec::default();
    let path = PathAndQuery::from_static(METHOD);
    let responses = client.streaming(Request::new(ReceiverStream::new(queue)), path, codec);
    let mut responses = responses.await?.into_inner();

    let mut left: HashMap<ResourceType, u64> = HashMap::new();
    let mut is_synced = false;
    while let Some(response) = responses.message().await? {
        let kind = ResourceType::from_type_url(&response.type_url);
        if let Some(kind) = kind.filter(|k| *k != ResourceType::Problem) {
            *left.entry(kind).or_default() += response.resources.len() as u64;
        }
        if let Some(kind) = kind {
            let mut answer = request(kind);
            answer.response_nonce.clone_from(&response.nonce);
            requests.send(answer).await?;
        }
        if kind == Some(ResourceType::Cluster) {
            let names: Vec<String> = response.resources.iter().map(|r| r.name.clone()).collect();
            for names in names.chunks(NAMES_PER_REQUEST) {
                let mut more = request(ResourceType::Endpoints);
                more.resource_names_subscribe = names.to_vec();
                requests.send(more).await?;
            }
        }
        sink.count(kind, &response);
        let clusters = left
            .get(&ResourceType::Cluster)
            .copied()
            .unwrap_or_default();
        let total: u64 = left.values().sum();
        if !is_synced && total == sink.expected + clusters {
            is_synced = true;
            sink.synced.fetch_add(1, Ordering::Relaxed);
            sink.changed.notify_one();
        }
    }
    anyhow::bail!("the control plane has ended the stream of agent {number}")
}

fn request(kind: ResourceType) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        ..Default::default()
    }
}
