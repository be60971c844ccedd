//! The Kubernetes objects of a plan: what the API server is given and, as files,
//! what Weft reads.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use crate::plan::{PORT, Plan};

/// Namespace of every object.
pub const NAMESPACE: &str = "bench";

/// Name of service `index`; its one EndpointSlice has the same.
pub fn name(index: u32) -> String {
    format!("s{index:05}")
}

/// Name of the service that moves between two backends.
pub const MOVING: &str = "moving";

/// The namespace.
pub fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

/// A node, with its addresses: kube-proxy waits for its own.
pub fn node(name: &str, addresses: &[IpAddr]) -> Value {
    let addresses: Vec<_> = addresses
        .iter()
        .map(|address| json!({"type": "InternalIP", "address": address}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"addresses": addresses},
    })
}

/// Service `index` of a plan.
pub fn service(plan: &Plan, index: u32) -> Value {
    a_service(&name(index), plan.service(index))
}

/// The endpoints of service `index` of a plan.
pub fn slice(plan: &Plan, index: u32) -> Value {
    a_slice(&name(index), plan.backends(index))
}

/// The service that moves.
pub fn moving_service(plan: &Plan) -> Value {
    a_service(MOVING, plan.moving_service())
}

/// Its one endpoint, after `changes` changes.
pub fn moving_slice(plan: &Plan, changes: u32) -> Value {
    a_slice(MOVING, [plan.moving_backend(changes)])
}

fn a_service(name: &str, address: Ipv4Addr) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "clusterIP": address, "clusterIPs": [address],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "tcp", "protocol": "TCP", "port": PORT, "targetPort": PORT}],
        },
    })
}

fn a_slice(service: &str, backends: impl IntoIterator<Item = Ipv4Addr>) -> Value {
    let endpoints: Vec<_> = backends
        .into_iter()
        .map(|address| json!({"addresses": [address], "conditions": {"ready": true}}))
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": service, "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"name": "tcp", "protocol": "TCP", "port": PORT}],
        "endpoints": endpoints,
    })
}
