//! Requests through the node's Envoy: how they are traced and counted, and that none is lost when another Envoy takes over.

mod counts;
mod traces;
mod upgrade;

use weft_e2e::http::service;
use weft_e2e::{Mesh, Result};
use weft_lab::{Lab, LabBuilder, PodSpec};

/// A client and a server on a node, whose service has a route.
fn pods() -> LabBuilder {
    let pod = |name: &str| PodSpec::new(name, "n1").label("app", name);
    Lab::builder()
        .node("n1")
        .pod(pod("client"))
        .pod(pod("near"))
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
