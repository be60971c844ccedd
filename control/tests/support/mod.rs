//! A control plane over a folder of its own, and clients that speak to it in process.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used
)]

mod http;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint, Server, Uri};
use weft_control::{Config, ControlPlane, SourceConfig};
use weft_proto::envoy::envoy::config::core::v3::Node;
use weft_proto::envoy::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use weft_proto::envoy::google::rpc::Status;
use weft_proto::resource::{MORE_FOLLOWS, ResourceType};

pub use http::{get, get_unix};

/// Longer than anything here should take, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Nothing comes within this time when nothing is to come.
pub const SILENCE: Duration = Duration::from_millis(400);

pub struct Lab {
    pub folder: TempDir,
    pub plane: ControlPlane,
    _stop: DropGuard,
}

impl Lab {
    /// A control plane that has read `files`.
    pub async fn start(files: &[(&str, &str)]) -> Self {
        let lab = Self::start_unsynced(files);
        tokio::time::timeout(PATIENCE, lab.plane.synced())
            .await
            .expect("the control plane did not sync");
        lab
    }

    pub fn start_unsynced(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let drain = CancellationToken::new();
        let config = Config {
            source: SourceConfig::Folder(folder.path().to_owned()),
            trust_domain: "cluster.local".to_owned(),
            root_namespace: "istio-system".to_owned(),
            tunnels: false,
            nodes: Default::default(),
        };
        let plane = ControlPlane::start(config, drain.clone()).unwrap();
        Self {
            folder,
            plane,
            _stop: drain.drop_guard(),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.path().join(name)).unwrap();
    }

    /// A client over an in-process pipe, as in `weft up`.
    pub async fn client(&self) -> AggregatedDiscoveryServiceClient<Channel> {
        let (client, server) = tokio::io::duplex(1 << 20);
        let service = self.plane.ads_service();
        tokio::spawn(
            Server::builder()
                .add_service(service)
                .serve_with_incoming(tokio_stream::once(Ok::<_, std::io::Error>(server))),
        );
        let mut client = Some(TokioIo::new(client));
        let connect = tower::service_fn(move |_: Uri| -> BoxFuture<'static, _> {
            let io = client.take().ok_or_else(|| std::io::Error::other("taken"));
            Box::pin(async move { io })
        });
        let channel = Endpoint::from_static("http://in.process")
            .connect_with_connector(connect)
            .await
            .unwrap();
        AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(usize::MAX)
    }

    pub async fn delta(&self, node: &str) -> Delta {
        let (requests, receiver) = mpsc::channel(16);
        let responses = self
            .client()
            .await
            .delta_aggregated_resources(ReceiverStream::new(receiver))
            .await
            .unwrap()
            .into_inner();
        Delta {
            node: node.to_owned(),
            requests,
            responses,
        }
    }

    pub async fn sotw(&self, node: &str) -> Sotw {
        let (requests, receiver) = mpsc::channel(16);
        let responses = self
            .client()
            .await
            .stream_aggregated_resources(ReceiverStream::new(receiver))
            .await
            .unwrap()
            .into_inner();
        Sotw {
            node: node.to_owned(),
            requests,
            responses,
        }
    }
}

fn node(id: &str) -> Option<Node> {
    Some(Node {
        id: id.to_owned(),
        ..Node::default()
    })
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}

fn refusal(message: &str) -> Option<Status> {
    Some(Status {
        code: 3,
        message: message.to_owned(),
        ..Status::default()
    })
}

/// A delta stream.
pub struct Delta {
    pub node: String,
    pub requests: mpsc::Sender<DeltaDiscoveryRequest>,
    pub responses: Streaming<DeltaDiscoveryResponse>,
}

impl Delta {
    pub async fn send(&self, request: DeltaDiscoveryRequest) {
        self.requests.send(request).await.unwrap();
    }

    pub async fn subscribe(&self, resource_type: ResourceType, names: &[&str]) {
        self.subscribe_with(resource_type, names, &[]).await;
    }

    pub async fn subscribe_with(
        &self,
        resource_type: ResourceType,
        names: &[&str],
        versions: &[(String, String)],
    ) {
        self.send(DeltaDiscoveryRequest {
            node: node(&self.node),
            type_url: resource_type.type_url().to_owned(),
            resource_names_subscribe: strings(names),
            initial_resource_versions: versions.iter().cloned().collect(),
            ..DeltaDiscoveryRequest::default()
        })
        .await;
    }

    /// Asks for everything of a type, in a program's own name.
    pub async fn introduce(&self, user_agent: &str, resource_type: ResourceType) {
        let node = node(&self.node).map(|node| Node {
            user_agent_name: user_agent.to_owned(),
            ..node
        });
        self.send(DeltaDiscoveryRequest {
            node,
            type_url: resource_type.type_url().to_owned(),
            ..DeltaDiscoveryRequest::default()
        })
        .await;
    }

    pub async fn unsubscribe(&self, resource_type: ResourceType, names: &[&str]) {
        self.send(DeltaDiscoveryRequest {
            type_url: resource_type.type_url().to_owned(),
            resource_names_unsubscribe: strings(names),
            ..DeltaDiscoveryRequest::default()
        })
        .await;
    }

    pub async fn ack(&self, response: &DeltaDiscoveryResponse) {
        self.answer(response, None).await;
    }

    pub async fn nack(&self, response: &DeltaDiscoveryResponse, message: &str) {
        self.answer(response, refusal(message)).await;
    }

    async fn answer(&self, response: &DeltaDiscoveryResponse, error_detail: Option<Status>) {
        self.send(DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            error_detail,
            ..DeltaDiscoveryRequest::default()
        })
        .await;
    }

    /// An answer with all its pieces, put together.
    pub async fn whole(&mut self) -> DeltaDiscoveryResponse {
        let mut answer = self.next().await;
        while answer.system_version_info.ends_with(MORE_FOLLOWS) {
            let piece = self.next().await;
            answer.resources.extend(piece.resources);
            answer.system_version_info = piece.system_version_info;
        }
        answer
    }

    pub async fn next(&mut self) -> DeltaDiscoveryResponse {
        tokio::time::timeout(PATIENCE, self.responses.message())
            .await
            .expect("no response")
            .expect("the stream failed")
            .expect("the stream ended")
    }

    pub async fn assert_silent(&mut self) {
        if let Ok(message) = tokio::time::timeout(SILENCE, self.responses.message()).await {
            panic!("unexpected response: {message:?}");
        }
    }
}

/// Names and versions in a response.
pub fn versions(response: &DeltaDiscoveryResponse) -> BTreeMap<String, String> {
    response
        .resources
        .iter()
        .map(|r| (r.name.clone(), r.version.clone()))
        .collect()
}

/// Names in a response.
pub fn names(response: &DeltaDiscoveryResponse) -> Vec<String> {
    versions(response).into_keys().collect()
}

/// A state-of-the-world stream.
pub struct Sotw {
    pub node: String,
    pub requests: mpsc::Sender<DiscoveryRequest>,
    pub responses: Streaming<DiscoveryResponse>,
}

impl Sotw {
    pub async fn request(
        &self,
        resource_type: ResourceType,
        names: &[&str],
        last: Option<&DiscoveryResponse>,
        error: Option<&str>,
    ) {
        self.request_with_version(
            resource_type,
            names,
            last.map_or("", |r| &r.version_info),
            last.map_or("", |r| &r.nonce),
            error,
        )
        .await;
    }

    pub async fn request_with_version(
        &self,
        resource_type: ResourceType,
        names: &[&str],
        version: &str,
        nonce: &str,
        error: Option<&str>,
    ) {
        let request = DiscoveryRequest {
            node: node(&self.node),
            type_url: resource_type.type_url().to_owned(),
            resource_names: strings(names),
            version_info: version.to_owned(),
            response_nonce: nonce.to_owned(),
            error_detail: error.and_then(refusal),
            ..DiscoveryRequest::default()
        };
        self.requests.send(request).await.unwrap();
    }

    pub async fn next(&mut self) -> DiscoveryResponse {
        tokio::time::timeout(PATIENCE, self.responses.message())
            .await
            .expect("no response")
            .expect("the stream failed")
            .expect("the stream ended")
    }

    pub async fn assert_silent(&mut self) {
        if let Ok(message) = tokio::time::timeout(SILENCE, self.responses.message()).await {
            panic!("unexpected response: {message:?}");
        }
    }
}

/// A service with one TCP port and one endpoint by slice.
pub fn service(name: &str, vip: &str, endpoint: &str) -> String {
    format!(
        r#"---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: shop}}
spec: {{clusterIP: {vip}, ports: [{{name: http, port: 80, targetPort: 8080}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-1, namespace: shop, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: http, port: 8080}}]
endpoints: [{{addresses: ["{endpoint}"]}}]
"#
    )
}
