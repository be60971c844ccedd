//! Node objects.

use std::net::IpAddr;

use serde_json::{Value, json};

/// Builds a Node.
#[derive(Debug, Clone)]
pub struct NodeManifest {
    name: String,
    addresses: Vec<IpAddr>,
    zone: Option<String>,
}

impl NodeManifest {
    /// A node with its internal addresses.
    pub fn new(name: impl Into<String>, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self {
            name: name.into(),
            addresses: addresses.into_iter().collect(),
            zone: None,
        }
    }

    /// Puts it in a zone, by the well-known label.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// The object.
    pub fn value(&self) -> Value {
        let addresses: Vec<Value> = self
            .addresses
            .iter()
            .map(|address| json!({"type": "InternalIP", "address": address}))
            .collect();
        let mut node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": {"kubernetes.io/hostname": self.name}},
            "status": {"addresses": addresses},
        });
        if let Some(zone) = &self.zone {
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
        }
        node
    }

    /// The object as YAML.
    pub fn yaml(&self) -> String {
        super::yaml::to_yaml(&self.value())
    }
}
