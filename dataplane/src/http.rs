//! `/metrics`, `/healthz` and `/readyz`, and what load balancers ask a node.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::admin::{AdminService, gather, reasons};
use crate::engine::Engine;
use crate::metrics::Metrics;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// For those who do not ask for OpenMetrics.
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where metrics are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsAddress {
    /// Address and port.
    pub address: SocketAddr,
    /// Somebody asked for just this one: if it is taken, that is an error. Otherwise the agent goes on without metrics.
    pub explicit: bool,
}

/// The address is taken or not this machine's.
#[derive(Debug, thiserror::Error)]
#[error("{what} {address}: {source}: give another address with {option}")]
pub struct BindError {
    /// What is to be served there.
    pub what: &'static str,
    /// How another address is given.
    pub option: &'static str,
    /// As configured.
    pub address: SocketAddr,
    /// The system's answer.
    pub source: std::io::Error,
}

/// Binds the address; `None` when it is taken and nobody insists on it.
///
/// # Errors
/// When it cannot be had and was asked for explicitly.
pub async fn bind(wanted: MetricsAddress) -> Result<Option<TcpListener>, BindError> {
    let MetricsAddress { address, explicit } = wanted;
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(source) if explicit => Err(BindError {
            what: "metrics on",
            option: "--metrics",
            address,
            source,
        }),
        Err(source) => {
            tracing::warn!("no metrics: {address}: {source}: give an address with --metrics");
            Ok(None)
        }
    }
}

/// Binds where load balancers ask.
///
/// # Errors
/// When the address cannot be had.
pub async fn bind_health(address: SocketAddr) -> Result<TcpListener, BindError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| BindError {
        what: "health on",
        option: "--node-health",
        address,
        source,
    })
}

#[derive(Clone)]
struct Shared {
    admin: AdminService,
    metrics: Arc<Metrics>,
}

/// Serves until `drain` is cancelled.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    admin: AdminService,
    metrics: Arc<Metrics>,
    drain: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(scrape))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(Shared { admin, metrics });
    axum::serve(listener, router)
        .with_graceful_shutdown(drain.cancelled_owned())
        .await
}

/// Answers load balancers until `drain` is cancelled: nothing else is to be seen there.
///
/// # Errors
/// When the listener fails.
pub async fn serve_health(
    listener: TcpListener,
    admin: AdminService,
    metrics: Arc<Metrics>,
    drain: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(ready))
        .route("/livez", get(|| async { "ok\n" }))
        .with_state(Shared { admin, metrics });
    axum::serve(listener, router)
        .with_graceful_shutdown(drain.cancelled_owned())
        .await
}

async fn ready(State(shared): State<Shared>) -> Response {
    let unjudged = shared.admin.engine.query(Engine::unjudged_pods).await;
    let reasons = match unjudged {
        Ok(unjudged) => {
            let (facts, xds) = (shared.admin.facts.snapshot(), shared.admin.xds.snapshot());
            reasons(&facts, &xds, &unjudged)
        }
        Err(e) => vec![e.to_string()],
    };
    match reasons.is_empty() {
        true => "ok\n".into_response(),
        false => {
            let text = reasons.join("\n") + "\n";
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

async fn scrape(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let open = accepted
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("application/openmetrics-text"));
    let shot = gather(&shared.admin).await;
    let text = shot.and_then(|shot| match open {
        true => shared.metrics.encode(&shot).ok(),
        false => shared.metrics.encode_classic(&shot).ok(),
    });
    let content_type = if open { OPEN_METRICS } else { CLASSIC };
    match text {
        Some(text) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the engine has stopped\n").into_response(),
    }
}
