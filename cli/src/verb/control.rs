//! `weft control`: the control plane alone.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weft_control::auth::{Gate, JoinToken};
use weft_control::ca::{Authority, CaConfig};
use weft_control::{Config, ControlPlane};

use super::tasks::Tasks;
use crate::args::{ControlArgs, Metrics, Protection, SecurityArgs, SourceArgs};
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
    let authority = authority(args, ca)?;
    let tunnels = authority.is_some();
    let plane = start(&args.source, authority, tunnels, drain.clone())?;
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
fn authority(args: &ControlArgs, ca: CaConfig) -> Result<Option<Arc<Authority>>> {
    let wanted = args.ca.ca_dir.is_some()
        || args.security.ca_bundle.is_some()
        || args.security.server(args.listen)? != Protection::None;
    match Authority::open(ca) {
        Ok(authority) => Ok(Some(authority)),
        Err(error) if !wanted && error.is_forbidden() => {
            tracing::warn!("no certificates are issued: {error}; give a folder with --ca-dir");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
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

/// Starts a control plane on the folder that was asked for. `tunnels`: its CA is that of all nodes.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn start(
    args: &SourceArgs,
    authority: Option<Arc<Authority>>,
    tunnels: bool,
    drain: CancellationToken,
) -> Result<ControlPlane> {
    let config = Config {
        manifests: args.folder()?.clone(),
        trust_domain: args.trust_domain.to_string(),
        root_namespace: args.root_namespace.clone(),
        tunnels,
    };
    let plane = ControlPlane::start(config, drain)?;
    Ok(match authority {
        Some(authority) => plane.with_authority(authority),
        None => plane,
    })
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
