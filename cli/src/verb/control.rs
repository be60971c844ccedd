//! `weft control`: the control plane alone.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weft_control::auth::{AgentAccount, Gate, JoinToken};
use weft_control::ca::{Authority, CaConfig};
use weft_control::source::kubernetes::Kubernetes;
use weft_control::{Config, ControlPlane, SourceConfig};

use super::tasks::Tasks;
use crate::args::{
    CaArgs, ControlArgs, Metrics, Protection, SecurityArgs, SourceArgs, SourcePlace,
};
use crate::signals;

/// Serves until a signal comes.
///
/// # Errors
/// When it cannot start, or a server fails.
pub(crate) async fn run(args: &ControlArgs) -> Result<()> {
    let drain = signals::drain_token()?;
    let ads = bind(args.listen, "--listen").await?;
    let http = match args.metrics {
        Metrics(Some(address)) => Some(bind(address, "--metrics").await?),
        Metrics(None) => None,
    };
    let ca = args.ca.config(args.source.trust_domain.clone(), None);
    let plane = start(&args.source, &args.ca, ca, drain.clone()).await?;
    tracing::info!("control plane serves ADS on {}", args.listen);
    publish_bundle(&plane, &args.security, &drain)?;
    let serve = serve(plane.clone(), ads, &args.security)?;
    let mut tasks = Tasks::new(drain);
    if let Some(http) = http {
        let plane = plane.clone();
        tasks.spawn(async move { Ok(plane.serve_http(http).await?) });
    }
    tasks.finish(serve).await
}

/// Serves agents as the options say.
///
/// # Errors
/// When the token cannot be used.
pub(super) fn serve(
    plane: ControlPlane,
    listener: TcpListener,
    security: &SecurityArgs,
) -> Result<BoxFuture<'static, Result<()>>> {
    let serve = match security.server(listener.local_addr()?)? {
        Protection::None => async move { Ok(plane.serve(listener).await?) }.boxed(),
        Protection::Token(file) => {
            let gate = Gate::Tokens(Arc::new(JoinToken::open(file)?));
            async move { Ok(plane.serve_tls(listener, gate).await?) }.boxed()
        }
        Protection::Account(account) => {
            let kubernetes = plane.kubernetes().context(
                "--agent-account needs an API server: give --kubeconfig FILE, or start it in a pod",
            )?;
            let account = AgentAccount::new(kubernetes, &account.namespace, &account.name);
            let gate = Gate::Tokens(Arc::new(account));
            async move { Ok(plane.serve_tls(listener, gate).await?) }.boxed()
        }
    };
    Ok(serve)
}

/// Writes the CA's bundle where it is asked for.
///
/// # Errors
/// When it cannot be written.
pub(super) fn publish_bundle(
    plane: &ControlPlane,
    security: &SecurityArgs,
    drain: &CancellationToken,
) -> Result<()> {
    if let (Some(path), Some(authority)) = (&security.ca_bundle, plane.authority()) {
        authority.publish(path.clone(), drain.clone())?;
    }
    Ok(())
}

/// Starts a control plane on the folder or API server that was asked for.
///
/// # Errors
/// When the folder, or the CA's, cannot be read, or what leads to the API server cannot be used.
pub(super) async fn start(
    args: &SourceArgs,
    own: &CaArgs,
    ca: CaConfig,
    drain: CancellationToken,
) -> Result<ControlPlane> {
    let source = match args.place()? {
        SourcePlace::Folder(folder) => SourceConfig::Folder(folder.clone()),
        SourcePlace::Kubernetes(access) => {
            let namespaces = args.namespaces.clone();
            SourceConfig::Kubernetes(Kubernetes::connect(&access, namespaces).await?)
        }
    };
    let authority = authority(own, ca, &source).await?;
    if let (Some(name), SourceConfig::Kubernetes(kubernetes)) = (&own.ca_config_map, &source) {
        let (authority, drain) = (Arc::clone(&authority), drain.clone());
        tokio::spawn(authority.publish_in_cluster(kubernetes.clone(), name.clone(), drain));
    }
    let config = Config {
        source,
        trust_domain: args.trust_domain.to_string(),
        root_namespace: args.root_namespace.clone(),
    };
    Ok(ControlPlane::start(config, drain)?.with_authority(authority))
}

/// The mesh's CA: of a Secret in a cluster, of a folder everywhere else.
async fn authority(
    args: &CaArgs,
    config: CaConfig,
    source: &SourceConfig,
) -> Result<Arc<Authority>> {
    match (&args.ca_secret, source) {
        (Some(name), SourceConfig::Kubernetes(kubernetes)) => {
            Ok(Authority::of_secret(config, kubernetes, name).await?)
        }
        (Some(_), SourceConfig::Folder(_)) => anyhow::bail!(
            "--ca-secret needs an API server: give --kubeconfig FILE, or start it in a pod"
        ),
        (None, _) => Ok(Authority::open(config)?),
    }
}

/// Listens, or says which option to change.
///
/// # Errors
/// When the address is taken or not ours.
pub(super) async fn bind(address: SocketAddr, option: &str) -> Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} (choose another with {option})"))
}
