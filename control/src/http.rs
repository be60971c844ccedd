//! Status, metrics and health over HTTP.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use crate::ControlPlane;
use crate::ca::CaStatus;
use crate::status::Status;

pub(crate) fn router(plane: ControlPlane) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(plane)
}

async fn status(State(plane): State<ControlPlane>) -> Json<Status> {
    Json(plane.status())
}

async fn ready(State(plane): State<ControlPlane>) -> (StatusCode, &'static str) {
    if plane.is_synced() {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the manifests are not all read yet\n",
        )
    }
}

async fn metrics(State(plane): State<ControlPlane>) -> impl IntoResponse {
    let mut text = String::new();
    match encode(&mut text, &registry(&plane.status())) {
        Ok(()) => (
            StatusCode::OK,
            [(
                header::CONTENT_TYPE,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            )],
            text,
        )
            .into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

type Labels = [(&'static str, String); 1];

/// The numbers of one moment. All of them are kept elsewhere; here they only get their names.
fn registry(status: &Status) -> Registry {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let mut registry = Registry::with_prefix("weft_control");
    registry.register(
        "synced",
        "1 once all manifests are read and agents are answered",
        ConstGauge::new(i64::from(status.synced)),
    );
    registry.register(
        "streams",
        "Open ADS streams",
        ConstGauge::new(number(status.streams)),
    );
    registry.register(
        "nacks",
        "NACKs received",
        ConstCounter::new(status.nacks_total),
    );
    registry.register(
        "refused_resources",
        "Resources that a node has refused and not taken since",
        ConstGauge::new(number(status.nacks.len())),
    );
    let resources = Family::<Labels, Gauge>::default();
    for (resource_type, count) in &status.resources {
        let labels = [("type", resource_type.clone())];
        resources.get_or_create(&labels).set(number(*count));
    }
    registry.register("resources", "Resources served, by type", resources);
    let problems = Family::<Labels, Gauge>::default();
    for severity in ["error", "warning"] {
        let count = status
            .problems
            .iter()
            .filter(|p| p.severity == severity)
            .count();
        let labels = [("severity", severity.to_owned())];
        problems.get_or_create(&labels).set(number(count));
    }
    registry.register(
        "problems",
        "Problems of the manifests, by severity",
        problems,
    );
    let refused = Family::<Labels, Counter>::default();
    for (reason, count) in &status.refused {
        let labels = [("reason", (*reason).to_owned())];
        refused.get_or_create(&labels).inc_by(*count);
    }
    let help = "Connections and requests that were not let in: tls, token";
    registry.register("connections_refused", help, refused);
    if let Some(ca) = &status.ca {
        register_ca(&mut registry, ca);
    }
    registry
}

fn register_ca(registry: &mut Registry, ca: &CaStatus) {
    let help = "Certificates issued to workloads";
    registry.register("certificates_issued", help, ConstCounter::new(ca.issued));
    let refused = Family::<Labels, Counter>::default();
    for (reason, count) in &ca.refused {
        let labels = [("reason", (*reason).to_owned())];
        refused.get_or_create(&labels).inc_by(*count);
    }
    let help = "Requests for certificates refused, by reason";
    registry.register("certificates_refused", help, refused);
    let end = ca.issuing.not_after_unix;
    let help = "When the certificate that issues ends, in seconds since 1970";
    registry.register("ca_issuing_expiry", help, ConstGauge::new(end));
    let first = ca.roots.iter().map(|root| root.not_after_unix).min();
    let help = "When the first trusted root ends, in seconds since 1970";
    registry.register("ca_root_expiry", help, ConstGauge::new(first.unwrap_or(0)));
    let roots = i64::try_from(ca.roots.len()).unwrap_or(i64::MAX);
    registry.register("ca_roots", "Trusted roots", ConstGauge::new(roots));
    let help = "1: files of the CA were changed and cannot be used, or nobody renews them";
    let trouble = i64::from(ca.trouble.is_some());
    registry.register("ca_trouble", help, ConstGauge::new(trouble));
}
