//! Tokens that prove one node: whoever has one is that node, on every stream and for every certificate.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio_stream::StreamExt;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use weft_control::auth::{Authenticator, Gate, Peer, Refused};
use weft_control::ca::{Authority, CaConfig};
use weft_control::{Config, ControlPlane, SourceConfig};
use weft_identity::request::KeyRequest;
use weft_proto::envoy::envoy::config::core::v3::Node;
use weft_proto::envoy::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use weft_proto::envoy::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use weft_proto::resource::NODE;
use weft_proto::wire::certificates::v1::IstioCertificateRequest;
use weft_proto::wire::certificates::v1::istio_certificate_service_client::IstioCertificateServiceClient;

const PODS: &str = "apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {nodeName: n1, serviceAccountName: web}
status: {podIP: 10.9.0.1, podIPs: [{ip: 10.9.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pay, namespace: default}
spec: {nodeName: n2, serviceAccountName: pay}
status: {podIP: 10.9.0.2, podIPs: [{ip: 10.9.0.2}]}
";

/// "token-of-NODE" is a node's; everything else nobody's.
struct ByNode;

impl Authenticator for ByNode {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Peer, Refused>> {
        // Asking somebody takes time.
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let node = token.strip_prefix("token-of-").ok_or(Refused::Wrong)?;
            match node {
                "unreachable" => Err(Refused::Unavailable("nobody to ask".to_owned())),
                node => Ok(Peer::Node(node.into())),
            }
        }
        .boxed()
    }
}

struct Lab {
    channel: Channel,
    _folder: TempDir,
    _stop: DropGuard,
}

async fn start() -> Lab {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pods.yaml"), PODS).unwrap();
    let drain = CancellationToken::new();
    let config = Config {
        source: SourceConfig::Folder(folder.path().to_owned()),
        trust_domain: "cluster.local".to_owned(),
        root_namespace: "istio-system".to_owned(),
        tunnels: false,
        nodes: Default::default(),
    };
    let authority = Authority::open(CaConfig {
        dir: folder.path().join("ca"),
        trust_domain: "cluster.local".parse().unwrap(),
        svid_life: Duration::from_secs(60),
        root_overlap: Duration::from_secs(60),
    });
    let plane = ControlPlane::start(config, drain.clone()).unwrap();
    let plane = plane.with_authority(authority.unwrap());
    plane.synced().await;
    let (near, far) = tokio::io::duplex(1 << 20);
    let server = plane.server(Gate::Tokens(Arc::new(ByNode)));
    tokio::spawn(server.serve_with_incoming(tokio_stream::once(Ok::<_, std::io::Error>(far))));
    let mut near = Some(TokioIo::new(near));
    let connect = tower::service_fn(move |_: tonic::transport::Uri| {
        std::future::ready(near.take().ok_or_else(|| std::io::Error::other("used")))
    });
    let endpoint = Endpoint::from_static("http://in.process");
    let channel = endpoint.connect_with_connector(connect).await.unwrap();
    Lab {
        channel,
        _folder: folder,
        _stop: drain.drop_guard(),
    }
}

fn bearer<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

/// The first response to requests of these nodes, and then the second.
async fn ads(lab: &Lab, token: &str, nodes: &[&str]) -> Result<(), Status> {
    let types = ["weft.workload.v1.Workload", "weft.policy.v1.Policy"];
    let requests: Vec<_> = (nodes.iter().zip(types))
        .map(|(node, name)| DeltaDiscoveryRequest {
            node: Some(Node {
                id: (*node).to_owned(),
                ..Default::default()
            }),
            type_url: format!("type.googleapis.com/{name}"),
            ..Default::default()
        })
        .collect();
    let requests = tokio_stream::iter(requests).chain(tokio_stream::pending());
    let mut responses = AggregatedDiscoveryServiceClient::new(lab.channel.clone())
        .delta_aggregated_resources(bearer(requests, token))
        .await?
        .into_inner();
    for _ in nodes {
        responses.message().await?.unwrap();
    }
    Ok(())
}

async fn sign(lab: &Lab, token: &str, node: Option<&str>, account: &str) -> Result<(), Status> {
    let id = format!("spiffe://cluster.local/ns/default/sa/{account}");
    let csr = KeyRequest::new(&id.parse().unwrap()).unwrap().csr;
    let message = IstioCertificateRequest {
        csr,
        ..Default::default()
    };
    let mut request = bearer(message, token);
    if let Some(node) = node {
        request.metadata_mut().insert(NODE, node.parse().unwrap());
    }
    let mut client = IstioCertificateServiceClient::new(lab.channel.clone());
    client.create_certificate(request).await.map(|_| ())
}

fn code<T>(result: Result<T, Status>) -> Code {
    result.err().map_or(Code::Ok, |status| status.code())
}

#[tokio::test]
async fn a_stream_is_the_node_that_its_token_proves() {
    let lab = start().await;
    assert_eq!(code(ads(&lab, "token-of-n1", &["n1"]).await), Code::Ok);
    assert_eq!(
        code(ads(&lab, "token-of-n1", &["n1/envoy"]).await),
        Code::Ok
    );
    assert_eq!(
        code(ads(&lab, "token-of-n1", &["n2"]).await),
        Code::PermissionDenied
    );
    let envoy = ads(&lab, "token-of-n1", &["n2/envoy"]).await;
    assert_eq!(code(envoy), Code::PermissionDenied);
    assert_eq!(
        code(ads(&lab, "token-of-n1", &["n1", "n1"]).await),
        Code::Ok
    );
    let other = ads(&lab, "token-of-n1", &["n1", "n2"]).await;
    assert_eq!(code(other), Code::InvalidArgument);
    assert_eq!(
        code(ads(&lab, "nonsense", &["n1"]).await),
        Code::Unauthenticated
    );
    let unreachable = ads(&lab, "token-of-unreachable", &["n1"]).await;
    assert_eq!(code(unreachable), Code::Unavailable);
}

#[tokio::test]
async fn certificates_are_for_the_node_that_the_token_proves() {
    let lab = start().await;
    for (token, node, account, expected) in [
        ("token-of-n1", None, "web", Code::Ok),
        ("token-of-n1", Some("n1"), "web", Code::Ok),
        ("token-of-n1", Some("n2"), "pay", Code::PermissionDenied),
        ("token-of-n1", Some("n2"), "web", Code::PermissionDenied),
        ("token-of-n1", None, "pay", Code::PermissionDenied),
        ("token-of-n2", None, "pay", Code::Ok),
        ("token-of-", None, "web", Code::PermissionDenied),
        ("nonsense", Some("n1"), "web", Code::Unauthenticated),
    ] {
        let signed = sign(&lab, token, node, account).await;
        assert_eq!(code(signed), expected, "{token} {node:?} {account}");
    }
}
