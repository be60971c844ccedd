//! Pods and nodes as workloads.

use weft_proto::model::{Mtls, Workload, WorkloadKind};

use crate::engine::{Nodes, Settings};
use crate::model::Model;
use crate::object::{ObjectName, Pod};
use crate::read::MESH;

/// Label of a Node whose pods take no tunnels, as it runs no Weft or no Envoy; its value is [`NO_TUNNEL`].
pub(crate) const TUNNEL: &str = "weft.io/tunnel";
const NO_TUNNEL: &str = "disabled";

/// The workload of a pod; `None` when it is not there, has no address yet, or has finished and may have lost it to another.
#[must_use]
pub fn pod(model: &Model, name: &ObjectName, settings: &Settings) -> Option<Workload> {
    let pod = model.pod(name)?;
    if pod.finished || pod.addresses.is_empty() {
        return None;
    }
    let out_of_mesh = model.is_out_of_mesh(name, pod);
    Some(Workload {
        name: pod_resource_name(name),
        kind: WorkloadKind::Pod,
        addresses: pod.addresses.clone(),
        node: pod.node.clone(),
        zone: model.zone(&pod.node).to_owned(),
        namespace: name.namespace.to_string(),
        service_account: pod.service_account.clone(),
        labels: pod.labels.clone(),
        spiffe_id: format!(
            "spiffe://{}/ns/{}/sa/{}",
            settings.trust_domain, name.namespace, pod.service_account
        ),
        host_network: pod.host_network,
        unaccelerated: pod.unaccelerated,
        out_of_mesh,
        ports: pod.ports.clone(),
        mtls: Mtls {
            tunnel: settings.tunnels && !out_of_mesh && takes_tunnels(model, pod, settings),
            ..model.mtls_of(name, pod, &settings.root_namespace)
        },
    })
}

fn takes_tunnels(model: &Model, pod: &Pod, settings: &Settings) -> bool {
    let node = model.node(&pod.node);
    let label = |label| Some(node?.labels.get(label)?.as_str());
    let has_agent = match settings.nodes {
        Nodes::All => label(MESH) != Some("disabled"),
        Nodes::Labelled => label(MESH) == Some("enabled"),
    };
    !pod.host_network && has_agent && label(TUNNEL) != Some(NO_TUNNEL)
}

/// The workload of a node; `None` when it is not there.
#[must_use]
pub fn node(model: &Model, name: &str) -> Option<Workload> {
    let node = model.node(name)?;
    Some(Workload {
        name: node_resource_name(name),
        kind: WorkloadKind::Node,
        addresses: node.addresses.clone(),
        node: name.to_owned(),
        zone: node.zone.clone(),
        namespace: String::new(),
        service_account: String::new(),
        labels: node.labels.clone(),
        spiffe_id: String::new(),
        host_network: false,
        unaccelerated: false,
        out_of_mesh: false,
        ports: Vec::new(),
        mtls: Mtls::default(),
    })
}

/// Name of a pod's workload.
pub(crate) fn pod_resource_name(name: &ObjectName) -> String {
    format!("pod/{name}")
}

/// Name of a node's workload.
pub(crate) fn node_resource_name(name: &str) -> String {
    format!("node/{name}")
}
