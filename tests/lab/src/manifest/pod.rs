//! Pod objects.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

/// Any time will do: a pod with it is on its way out.
const DELETED_AT: &str = "2026-01-01T00:00:00Z";

/// Builds a Pod, ready unless told otherwise.
#[derive(Debug, Clone)]
pub struct PodManifest {
    name: String,
    namespace: String,
    node: String,
    service_account: String,
    labels: BTreeMap<String, String>,
    addresses: Vec<IpAddr>,
    ports: Vec<(String, u16)>,
    phase: &'static str,
    ready: bool,
    terminating: bool,
    host_network: bool,
}

impl PodManifest {
    /// A pod on `node`, in namespace `default` with service account `default`.
    pub fn new(
        name: impl Into<String>,
        node: impl Into<String>,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Self {
        Self {
            name: name.into(),
            namespace: "default".into(),
            node: node.into(),
            service_account: "default".into(),
            labels: BTreeMap::new(),
            addresses: addresses.into_iter().collect(),
            ports: Vec::new(),
            phase: "Running",
            ready: true,
            terminating: false,
            host_network: false,
        }
    }

    /// Puts it in a namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Gives it a service account.
    pub fn service_account(mut self, account: impl Into<String>) -> Self {
        self.service_account = account.into();
        self
    }

    /// Adds a label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Names a container port.
    pub fn port(mut self, name: impl Into<String>, port: u16) -> Self {
        self.ports.push((name.into(), port));
        self
    }

    /// Sets the Ready condition.
    pub fn ready(mut self, ready: bool) -> Self {
        self.ready = ready;
        self
    }

    /// Gives it a deletion timestamp.
    pub fn terminating(mut self) -> Self {
        self.terminating = true;
        self
    }

    /// Ends it: phase `Succeeded`.
    pub fn finished(mut self) -> Self {
        self.phase = "Succeeded";
        self
    }

    /// Puts it in the node's network.
    pub fn host_network(mut self) -> Self {
        self.host_network = true;
        self
    }

    /// The object.
    pub fn value(&self) -> Value {
        let ips: Vec<Value> = self.addresses.iter().map(|ip| json!({"ip": ip})).collect();
        let ports: Vec<Value> = self
            .ports
            .iter()
            .map(|(name, port)| json!({"name": name, "containerPort": port}))
            .collect();
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": self.labels},
            "spec": {
                "nodeName": self.node,
                "serviceAccountName": self.service_account,
                "containers": [{"name": "main", "image": "main", "ports": ports}],
            },
            "status": {
                "phase": self.phase,
                "podIPs": ips,
                "conditions": [{"type": "Ready", "status": if self.ready { "True" } else { "False" }}],
            },
        });
        if let Some(first) = self.addresses.first() {
            pod["status"]["podIP"] = json!(first);
        }
        if self.terminating {
            pod["metadata"]["deletionTimestamp"] = json!(DELETED_AT);
        }
        if self.host_network {
            pod["spec"]["hostNetwork"] = json!(true);
        }
        pod
    }

    /// The object as YAML.
    pub fn yaml(&self) -> String {
        super::yaml::to_yaml(&self.value())
    }
}
