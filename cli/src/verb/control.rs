//! `weft control`: the control plane alone.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weft_control::source::kubernetes::Kubernetes;
use weft_control::{Config, ControlPlane, SourceConfig};

use super::tasks::Tasks;
use crate::args::{ControlArgs, Metrics, SourceArgs, SourcePlace};
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
    let plane = start(&args.source, drain.clone()).await?;
    tracing::info!("control plane serves ADS on {}", args.listen);
    let mut tasks = Tasks::new(drain);
    if let Some(http) = http {
        let plane = plane.clone();
        tasks.spawn(async move { Ok(plane.serve_http(http).await?) });
    }
    tasks
        .finish(async move { Ok(plane.serve(ads).await?) })
        .await
}

/// Starts a control plane on the folder or API server that was asked for.
///
/// # Errors
/// When the folder cannot be read, or what leads to the API server cannot be used.
pub(super) async fn start(args: &SourceArgs, drain: CancellationToken) -> Result<ControlPlane> {
    let source = match args.place()? {
        SourcePlace::Folder(folder) => SourceConfig::Folder(folder.clone()),
        SourcePlace::Kubernetes(access) => {
            let namespaces = args.namespaces.clone();
            SourceConfig::Kubernetes(Kubernetes::connect(&access, namespaces).await?)
        }
    };
    let config = Config {
        source,
        trust_domain: args.trust_domain.clone(),
        root_namespace: args.root_namespace.clone(),
    };
    Ok(ControlPlane::start(config, drain)?)
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
