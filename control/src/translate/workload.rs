//! Pods and nodes as workloads.

use weft_proto::model::{Workload, WorkloadKind};

use crate::model::Model;
use crate::object::ObjectName;

/// The workload of a pod; `None` when it is not there, has no address yet, or has finished and may have lost it to another.
#[must_use]
pub fn pod(model: &Model, name: &ObjectName, trust_domain: &str) -> Option<Workload> {
    let pod = model.pod(name)?;
    if pod.finished || pod.addresses.is_empty() {
        return None;
    }
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
            "spiffe://{trust_domain}/ns/{}/sa/{}",
            name.namespace, pod.service_account
        ),
        host_network: pod.host_network,
        unaccelerated: pod.unaccelerated,
        ports: pod.ports.clone(),
    })
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
        ports: Vec::new(),
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
