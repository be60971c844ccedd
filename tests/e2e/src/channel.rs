//! A control plane on loopback behind TLS and a token, and clients that know how to misbehave.

use std::fs::{self, File, Permissions};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use futures::stream;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use weft_identity::TrustBundle;
use weft_identity::request::KeyRequest;
use weft_identity::tls;
use weft_lab::tools;
use weft_proto::envoy::envoy::config::core::v3::Node;
use weft_proto::envoy::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse,
};
use weft_proto::wire::certificates::v1::IstioCertificateRequest;
use weft_proto::wire::certificates::v1::istio_certificate_service_client::IstioCertificateServiceClient;

use crate::wait::LONG;
use crate::{Result, eventually};

/// A token as good as any.
pub const TOKEN: &str = "6f1d2c3b4a5968778695a4b3c2d1e0f1";

/// A `weft control` that serves one pod, `default/web` with service account `web` on node `n1`.
pub struct Control {
    /// Manifests, CA, token.
    pub folder: TempDir,
    /// Where it listens.
    pub address: SocketAddr,
    child: Child,
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const POD: &str = "apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {nodeName: n1, serviceAccountName: web}
status: {podIP: 10.9.0.1, podIPs: [{ip: 10.9.0.1}]}
";

/// Writes a secret file.
///
/// # Errors
/// When it cannot be written.
pub fn write_secret(path: &Path, text: &str) -> Result {
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, Permissions::from_mode(0o600))?)
}

/// A `weft` of this machine, outside of any lab: for what ends at once, or stays on loopback.
///
/// # Errors
/// When it is not built.
pub fn weft(args: &[&str]) -> Result<Command> {
    let mut command = Command::new(tools::weft()?);
    command.args(args).env_clear();
    Ok(command)
}

impl Control {
    /// Starts it, with a join token and `more` options, and waits until it listens.
    ///
    /// # Errors
    /// When it does not.
    pub fn start(more: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        write_secret(&folder.path().join("token"), TOKEN)?;
        fs::create_dir(folder.path().join("manifests"))?;
        fs::write(folder.path().join("manifests/pod.yaml"), POD)?;
        // Free a moment ago: another process that takes it makes the control plane fail, and the test with it.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = File::create(folder.path().join("log"))?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let listen = address.to_string();
        let child = weft(&["control", "--metrics", "none", "--listen", &listen])?
            .args(["--manifests", &path("manifests"), "--ca-dir", &path("ca")])
            .args([
                "--join-token-file",
                &path("token"),
                "--ca-bundle",
                &path("bundle"),
            ])
            .args(more)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()?;
        let control = Self {
            folder,
            address,
            child,
        };
        eventually(LONG, || {
            std::net::TcpStream::connect(address).with_context(|| control.log())?;
            ensure!(
                control.log().contains("all manifests are read"),
                "{}",
                control.log()
            );
            Ok(())
        })?;
        Ok(control)
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A file of its.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The roots that it tells agents to trust.
    ///
    /// # Errors
    /// When it has not written them.
    pub fn bundle(&self) -> Result<TrustBundle> {
        Ok(TrustBundle::from_pem(&fs::read(self.path("bundle"))?)?)
    }

    /// A connection over TLS, and the serial number of the certificate that the server showed.
    ///
    /// # Errors
    /// When its certificate does not lead to `roots`.
    pub async fn dial(&self, roots: &TrustBundle) -> Result<(Channel, String)> {
        let tcp = TcpStream::connect(self.address).await?;
        let connector = TlsConnector::from(tls::client(roots)?);
        let stream = connector.connect(tls::control_name()?, tcp).await?;
        let shown = stream.get_ref().1.peer_certificates();
        let shown = shown
            .and_then(|all| all.first())
            .context("no certificate")?;
        let shown = weft_identity::certificate::Certificate::read(shown.clone().into_owned());
        let serial = shown.map_err(anyhow::Error::msg)?.serial;
        let mut once = Some(hyper_util::rt::TokioIo::new(stream));
        let connect = tower::service_fn(move |_: tonic::transport::Uri| {
            let stream = once.take().ok_or_else(|| std::io::Error::other("used"));
            std::future::ready(stream)
        });
        let endpoint = Endpoint::from_static("http://control");
        let channel = endpoint.connect_with_connector(connect).await?;
        Ok((channel, serial))
    }

    /// A connection in plain text.
    ///
    /// # Errors
    /// When there is none.
    pub async fn dial_plain(&self) -> Result<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address))?;
        Ok(endpoint.connect().await?)
    }
}

/// Puts a token and a node's name on a request.
fn signed<T>(message: T, token: Option<&str>, node: Option<&str>) -> Result<Request<T>> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse()?;
        request.metadata_mut().insert("authorization", value);
    }
    if let Some(node) = node {
        request.metadata_mut().insert("weft-node", node.parse()?);
    }
    Ok(request)
}

/// Opens an ADS stream for all workloads as `node`; what comes first.
///
/// # Errors
/// That of the server inside, that of the test outside.
pub async fn ads(
    channel: Channel,
    token: Option<&str>,
    node: &str,
) -> Result<Result<DeltaDiscoveryResponse, Status>> {
    let first = DeltaDiscoveryRequest {
        node: Some(Node {
            id: node.to_owned(),
            ..Default::default()
        }),
        type_url: "type.googleapis.com/weft.workload.v1.Workload".to_owned(),
        ..Default::default()
    };
    let requests = futures::StreamExt::chain(stream::iter([first]), stream::pending());
    let request = signed(requests, token, None)?;
    let opened = AggregatedDiscoveryServiceClient::new(channel)
        .delta_aggregated_resources(request)
        .await;
    let mut responses = match opened {
        Ok(opened) => opened.into_inner(),
        Err(status) => return Ok(Err(status)),
    };
    Ok(match responses.message().await {
        Ok(Some(response)) => Ok(response),
        Ok(None) => anyhow::bail!("the stream ended without a word"),
        Err(status) => Err(status),
    })
}

/// Asks for a certificate for `id`.
///
/// # Errors
/// That of the server inside, that of the test outside.
pub async fn certificate(
    channel: Channel,
    token: Option<&str>,
    node: Option<&str>,
    id: &str,
) -> Result<Result<Vec<String>, Status>> {
    let made = KeyRequest::new(&id.parse()?)?;
    let message = IstioCertificateRequest {
        csr: made.csr,
        ..Default::default()
    };
    let request = signed(message, token, node)?;
    let answer = IstioCertificateServiceClient::new(channel)
        .create_certificate(request)
        .await;
    Ok(answer.map(|answer| answer.into_inner().cert_chain))
}

/// Roots of a CA that has nothing to do with any control plane here.
///
/// # Errors
/// When there is no randomness.
pub fn strange_roots() -> Result<TrustBundle> {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = params.self_signed(&rcgen::KeyPair::generate()?)?;
    Ok(TrustBundle::new([root.into()]))
}
