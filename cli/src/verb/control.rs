//! `weft control`: the control plane alone.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weft_control::auth::{AgentAccount, Gate, JoinToken};
use weft_control::ca::{Authority, CaConfig, CaError};
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
    let ca = args.ca.config(args.source.mesh.trust_domain.clone(), None);
    let source = source(&args.source).await?;
    let authority = authority(args, ca, &source).await?;
    let tunnels = authority.is_some();
    let plane = start(&args.source, source, authority, tunnels, drain.clone())?;
    publish_in_cluster(&plane, &args.ca, &drain);
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

/// The CA; `None` where nobody has asked for one and this process may not keep one: then no workload gets a certificate.
async fn authority(
    args: &ControlArgs,
    ca: CaConfig,
    source: &SourceConfig,
) -> Result<Option<Arc<Authority>>> {
    let wanted = args.ca.is_shared()
        || args.security.ca_bundle.is_some()
        || args.security.server(args.listen)? != Protection::None;
    match open_authority(&args.ca, ca, source).await {
        Ok(authority) => Ok(Some(authority)),
        Err(error) if !wanted && is_forbidden(&error) => {
            tracing::warn!("no certificates are issued: {error}; give a folder with --ca-dir");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn is_forbidden(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<CaError>();
    error.is_some_and(CaError::is_forbidden)
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

/// The folder or API server that was asked for.
///
/// # Errors
/// When what leads to the API server cannot be used.
pub(super) async fn source(args: &SourceArgs) -> Result<SourceConfig> {
    Ok(match args.place()? {
        SourcePlace::Folder(folder) => SourceConfig::Folder(folder.clone()),
        SourcePlace::Kubernetes(access) => {
            let namespaces = args.namespaces.clone();
            SourceConfig::Kubernetes(Kubernetes::connect(&access, namespaces).await?)
        }
    })
}

/// Starts a control plane. `tunnels`: its CA is that of all nodes.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn start(
    args: &SourceArgs,
    source: SourceConfig,
    authority: Option<Arc<Authority>>,
    tunnels: bool,
    drain: CancellationToken,
) -> Result<ControlPlane> {
    let config = Config {
        source,
        trust_domain: args.mesh.trust_domain.to_string(),
        root_namespace: args.root_namespace.clone(),
        tunnels,
        nodes: args.mesh_nodes.into(),
    };
    let plane = ControlPlane::start(config, drain)?;
    Ok(match authority {
        Some(authority) => plane.with_authority(authority),
        None => plane,
    })
}

/// Keeps the CA's certificates in the ConfigMap that was asked for.
pub(super) fn publish_in_cluster(plane: &ControlPlane, args: &CaArgs, drain: &CancellationToken) {
    if let (Some(name), Some(kubernetes), Some(authority)) =
        (&args.ca_config_map, plane.kubernetes(), plane.authority())
    {
        let (authority, kubernetes) = (Arc::clone(authority), kubernetes.clone());
        tokio::spawn(authority.publish_in_cluster(kubernetes, name.clone(), drain.clone()));
    }
}

/// The mesh's CA: of a Secret in a cluster, of a folder everywhere else.
///
/// # Errors
/// When it cannot be read or made.
pub(super) async fn open_authority(
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
