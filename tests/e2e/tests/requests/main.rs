//! Requests through the node's Envoy: how they are traced and counted, and that none is lost when another Envoy takes over.

mod counts;
mod traces;
mod upgrade;

use weft_e2e::http::service;
use weft_e2e::{Mesh, Result};
use weft_lab::{Lab, LabBuilder, PodSpec};

/// A client and a server on a node, whose service has a route.
fn pods() -> LabBuilder {
    with_pods(Lab::builder().node("n1"), "n1")
}

/// The client is on n1, the server on `node`.
fn with_pods(nodes: LabBuilder, node: &str) -> LabBuilder {
    let pod = |name: &str, node: &str| PodSpec::new(name, node).label("app", name);
    nodes.pod(pod("client", "n1")).pod(pod("near", node))
}

fn route(mesh: &Mesh) -> Result {
    mesh.service(&service("near", 1), 1)?;
    mesh.apply(
        "route",
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: near, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: near}]
  rules:
  - backendRefs: [{name: near, port: 80}]
",
    )
}
