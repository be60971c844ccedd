//! What agents see while a control plane starts, and how it stops.
#![allow(clippy::panic, clippy::unwrap_used)]

mod support;

use std::time::Duration;

use support::{Lab, PATIENCE, get, names, service};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weft_control::{Config, ControlError, ControlPlane, SourceConfig};
use weft_proto::resource::ResourceType::{Listener, Problem};

#[tokio::test]
async fn nothing_is_answered_before_everything_is_read() {
    let mut text = String::new();
    for i in 0..500 {
        let vip = format!("10.96.{}.{}", i / 250, i % 250 + 1);
        text += &service(&format!("s{i}"), &vip, "10.0.0.1");
    }
    let lab = Lab::start_unsynced(&[("a.yaml", &text)]);
    // The stream is there before the folder is read: the one answer has everything.
    let mut stream = lab.delta("n1").await;
    stream.subscribe(Listener, &["*"]).await;
    assert_eq!(names(&stream.whole().await).len(), 500);
}

#[tokio::test]
async fn a_wrong_folder_or_trust_domain_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let start = |manifests, trust_domain: &str| {
        ControlPlane::start(
            Config {
                source: SourceConfig::Folder(manifests),
                trust_domain: trust_domain.to_owned(),
                root_namespace: "istio-system".to_owned(),
                tunnels: false,
                nodes: Default::default(),
            },
            CancellationToken::new(),
        )
    };
    let error = start(folder.path().join("none"), "cluster.local").unwrap_err();
    assert!(matches!(error, ControlError::Folder(_)), "{error}");
    let error = start(folder.path().to_owned(), "Cluster Local").unwrap_err();
    assert!(matches!(error, ControlError::TrustDomain(_)), "{error}");
}

#[tokio::test]
async fn status_and_metrics_tell_problems() {
    let lab = Lab::start(&[
        ("a.yaml", &service("cart", "10.96.0.1", "10.0.0.1")),
        (
            "b.yaml",
            "kind: Service\napiVersion: v1\nmetadata: {name: B_}\n",
        ),
    ])
    .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plane = lab.plane.clone();
    tokio::spawn(async move { plane.serve_http(listener).await });
    assert_eq!(get(address, "/readyz").await.unwrap(), "ok\n");
    assert_eq!(get(address, "/healthz").await.unwrap(), "ok\n");
    assert!(get(address, "/nothing").await.is_err());
    let status = get(address, "/status").await.unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["synced"], true);
    assert_eq!(status["resources"]["Listener"], 1);
    assert_eq!(status["problems"][0]["origin"], "b.yaml:1");
    assert_eq!(status["problems"][0]["field"], "metadata.name");
    let metrics = get(address, "/metrics").await.unwrap();
    for line in [
        "weft_control_resources{type=\"Listener\"} 1",
        "weft_control_problems{severity=\"error\"} 1",
        "weft_control_nacks_total 0",
        "weft_control_synced 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

#[tokio::test]
async fn a_file_changed_mends_its_problem() {
    let lab = Lab::start(&[("b.yaml", "kind: Service\n  bad: [\n")]).await;
    let mut stream = lab.delta("n1").await;
    stream.subscribe(Problem, &["*"]).await;
    let bad = names(&stream.next().await);
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert!(bad[0].starts_with("b.yaml:2#"), "{bad:?}");
    lab.write("b.yaml", &service("cart", "10.96.0.1", "10.0.0.1"));
    assert_eq!(stream.next().await.removed_resources, bad);
}

#[tokio::test]
async fn streams_end_when_the_control_plane_stops() {
    let folder = tempfile::tempdir().unwrap();
    let drain = CancellationToken::new();
    let config = Config {
        source: SourceConfig::Folder(folder.path().to_owned()),
        trust_domain: "cluster.local".to_owned(),
        root_namespace: "istio-system".to_owned(),
        tunnels: false,
        nodes: Default::default(),
    };
    let plane = ControlPlane::start(config, drain.clone()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = tokio::spawn(async move { plane.serve(listener).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    drain.cancel();
    tokio::time::timeout(PATIENCE, serving)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}
