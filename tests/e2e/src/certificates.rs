//! Certificates of a node as its Envoy gets them, and what others make of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::stream;
use prost::Message;
use serde_json::Value;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use weft_lab::{Node, Weft};
use weft_proto::envoy::envoy::config::core::v3::DataSource;
use weft_proto::envoy::envoy::config::core::v3::data_source::Specifier;
use weft_proto::envoy::envoy::extensions::transport_sockets::tls::v3::Secret;
use weft_proto::envoy::envoy::extensions::transport_sockets::tls::v3::secret::Type;
use weft_proto::envoy::envoy::service::discovery::v3::DiscoveryRequest;
use weft_proto::envoy::envoy::service::secret::v3::secret_discovery_service_client::SecretDiscoveryServiceClient;

use crate::wait::LONG;
use crate::{Result, eventually};

/// The SPIFFE ID of a service account in namespace `default`, in trust domain `cluster.local`.
#[must_use]
pub fn spiffe_id(account: &str) -> String {
    format!("spiffe://cluster.local/ns/default/sa/{account}")
}

/// What `weft certificates` says.
///
/// # Errors
/// When the agent does not answer.
pub fn certificates(weft: &Weft) -> Result<Vec<Value>> {
    Ok(serde_json::from_value(weft.cli_json(&["certificates"])?)?)
}

/// Waits until the node has valid certificates of exactly these service accounts of namespace `default`.
///
/// # Errors
/// When it does not get there.
pub fn wait_certificates(weft: &Weft, accounts: &[&str]) -> Result<Vec<Value>> {
    eventually(LONG, || {
        let list = certificates(weft)?;
        let named = list.iter().filter_map(|c| c["id"].as_str());
        let expected: Vec<String> = accounts.iter().map(|a| spiffe_id(a)).collect();
        ensure!(named.eq(expected.iter()), "{expected:?} expected: {list:?}");
        let good = |c: &Value| c["valid"] == true && c["error"] == "";
        ensure!(list.iter().all(good), "{list:?}");
        Ok(list)
    })
}

/// The socket where the node's Envoy finds its secrets.
#[must_use]
pub fn sds_socket(node: &Node) -> PathBuf {
    node.run_dir().join("envoy/control.sock")
}

fn text(source: Option<DataSource>) -> String {
    match source.and_then(|s| s.specifier) {
        Some(Specifier::InlineBytes(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        other => format!("not inline: {other:?}"),
    }
}

/// Asks for secrets as an Envoy does, by state of the world, and returns what comes first: for a certificate its chain and key, for a validation
/// context its roots, PEM. Nothing within `patience`: nothing.
///
/// # Errors
/// When nobody listens.
pub fn secrets(socket: &Path, names: &[&str], patience: Duration) -> Result<Vec<(String, String)>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let channel = dial(socket).await?;
        let request = DiscoveryRequest {
            resource_names: names.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        let requests = futures::StreamExt::chain(stream::iter([request]), stream::pending());
        let mut client = SecretDiscoveryServiceClient::new(channel);
        let asked = client.stream_secrets(requests);
        let mut responses = asked.await?.into_inner();
        let Ok(response) = tokio::time::timeout(patience, responses.message()).await else {
            return Ok(Vec::new());
        };
        let response = response?.context("the stream ended")?;
        let secrets = response.resources.iter().map(|any| {
            let secret = Secret::decode(any.value.as_slice())?;
            let pem = match secret.r#type {
                Some(Type::TlsCertificate(c)) => text(c.certificate_chain) + &text(c.private_key),
                Some(Type::ValidationContext(c)) => text(c.trusted_ca),
                other => anyhow::bail!("{other:?}"),
            };
            Ok((secret.name, pem))
        });
        secrets.collect()
    })
}

async fn dial(socket: &Path) -> Result<Channel> {
    let path = socket.to_owned();
    let connect = tower::service_fn(move |_: tonic::transport::Uri| {
        let path = path.clone();
        async move {
            let stream = UnixStream::connect(path).await?;
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
        }
    });
    let endpoint = Endpoint::from_static("http://agent");
    Ok(endpoint.connect_with_connector(connect).await?)
}

/// One secret, which has to be there.
///
/// # Errors
/// When it is not.
pub fn secret(node: &Node, name: &str) -> Result<String> {
    let found = secrets(&sds_socket(node), &[name], LONG)?;
    let [(_, pem)] = found.as_slice() else {
        anyhow::bail!("{name}: {found:?}");
    };
    Ok(pem.clone())
}

/// An independent verifier: go-spiffe, the reference implementation.
pub struct Verifier {
    program: PathBuf,
    /// Files with keys in them.
    folder: tempfile::TempDir,
}

impl Verifier {
    /// Builds it, unless it is built.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn build() -> Result<Self> {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build-spiffe-verifier");
        let output = Command::new(&script).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {said}", script.display());
        let path = String::from_utf8(output.stdout)?;
        Ok(Self {
            program: PathBuf::from(path.trim()),
            folder: tempfile::tempdir()?,
        })
    }

    /// Puts a text into a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.folder.path().join(name);
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// What it says; an error is that it refuses.
    ///
    /// # Errors
    /// Its reason.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(&self.program).args(args).output()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(output.status.success(), "{said}");
        Ok(said)
    }
}
