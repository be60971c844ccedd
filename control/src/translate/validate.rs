//! A real Envoy takes what is made for it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use prost::Message;
use tokio::sync::mpsc;
use weft_proto::convert;
use weft_proto::envoy::envoy::config::bootstrap::v3::{Bootstrap, bootstrap::StaticResources};
use weft_proto::envoy::envoy::config::cluster::v3::Cluster;
use weft_proto::envoy::envoy::config::core::v3::Node;
use weft_proto::envoy::envoy::config::listener::v3::Listener;
use weft_proto::resource::ResourceType;

use crate::ads::{Store, Table};
use crate::engine::{Engine, Settings};
use crate::source::Event;
use crate::source::folder::read_file;

fn envoy() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/envoy/envoy");
    let path = std::env::var_os("WEFT_TEST_ENVOY").map_or(installed, PathBuf::from);
    assert!(
        path.exists(),
        "no Envoy at {}: run scripts/install-envoy, or name one in WEFT_TEST_ENVOY",
        path.display()
    );
    path
}

/// What Envoy says of a bootstrap, as an error if it does not take it. The file's name tells the format.
pub(crate) fn validate(name: &str, bootstrap: &[u8]) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, bootstrap).unwrap();
    let output = Command::new(envoy())
        .args(["--mode", "validate", "--config-path"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(said),
    }
}

/// What Envoys get of `testdata/mtls.yaml`.
fn published() -> Arc<Store> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/mtls.yaml");
    let mut events = read_file(&path, "mtls.yaml");
    events.push(Event::Synced);
    let (sender, receiver) = mpsc::channel(1);
    sender.try_send(events).unwrap();
    drop(sender);
    let settings = Settings {
        tunnels: true,
        ..Settings::default()
    };
    let engine = Engine::new(Arc::default(), settings);
    let envoys = engine.envoys();
    engine.run(receiver);
    envoys
}

fn all<T: Message + Default>(table: &Table) -> Vec<T> {
    table
        .iter()
        .map(|(_, entry)| convert::unpack(&entry.any(), "").unwrap())
        .collect()
}

/// As every bootstrap has it.
fn named(name: &str) -> Cluster {
    Cluster {
        name: name.to_owned(),
        ..Cluster::default()
    }
}

#[test]
fn a_real_envoy_takes_tunnels() {
    let store = published();
    let (mut clusters, listeners): (Vec<Cluster>, Vec<Listener>) = store.read(|snapshot| {
        (
            all(snapshot.table(ResourceType::Cluster)),
            all(snapshot.table(ResourceType::Listener)),
        )
    });
    assert!(clusters.len() > 2 && listeners.len() == 2, "{listeners:?}");
    for listener in &listeners {
        assert!(listener.filter_chains.len() > 2, "{listener:?}");
    }
    clusters.extend(["weft.control", "weft.emerged"].map(named));
    let bootstrap = Bootstrap {
        node: Some(Node {
            id: "n1/envoy".to_owned(),
            cluster: "weft".to_owned(),
            ..Node::default()
        }),
        static_resources: Some(StaticResources {
            clusters,
            listeners,
            ..StaticResources::default()
        }),
        ..Bootstrap::default()
    };
    let said = validate("bootstrap.pb", &bootstrap.encode_to_vec()).unwrap();
    assert!(!said.contains("eprecated"), "{said}");
}
