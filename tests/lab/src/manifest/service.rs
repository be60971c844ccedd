//! Service objects.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// One port of a Service.
#[derive(Debug, Clone)]
pub struct ServicePort {
    name: Option<String>,
    protocol: &'static str,
    port: u16,
    target: Value,
}

impl ServicePort {
    /// A TCP port, served by the same port of the backends.
    pub fn tcp(port: u16) -> Self {
        Self {
            name: None,
            protocol: "TCP",
            port,
            target: json!(port),
        }
    }

    /// A UDP port, served by the same port of the backends.
    pub fn udp(port: u16) -> Self {
        Self {
            protocol: "UDP",
            ..Self::tcp(port)
        }
    }

    /// Names it; needed when a Service has more than one.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Lets another port of the backends serve it.
    pub fn to(mut self, target: u16) -> Self {
        self.target = json!(target);
        self
    }

    /// Lets the backends' container port of that name serve it.
    pub fn to_named(mut self, target: impl Into<String>) -> Self {
        self.target = json!(target.into());
        self
    }

    fn value(&self) -> Value {
        let mut port =
            json!({"port": self.port, "protocol": self.protocol, "targetPort": self.target});
        if let Some(name) = &self.name {
            port["name"] = json!(name);
        }
        port
    }
}

/// Builds a Service.
#[derive(Debug, Clone)]
pub struct ServiceManifest {
    name: String,
    namespace: String,
    cluster_ips: Vec<String>,
    ports: Vec<ServicePort>,
    selector: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    /// Further fields of `spec`.
    extra: Map<String, Value>,
}

impl ServiceManifest {
    /// A Service in namespace `default`, without addresses yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: "default".into(),
            cluster_ips: Vec::new(),
            ports: Vec::new(),
            selector: BTreeMap::new(),
            annotations: BTreeMap::new(),
            extra: Map::new(),
        }
    }

    /// Puts it in a namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Gives it its addresses.
    pub fn cluster_ips(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.cluster_ips = addresses.into_iter().map(|ip| ip.to_string()).collect();
        self
    }

    /// Leaves it without address: clients ask DNS for the pods.
    pub fn headless(mut self) -> Self {
        self.cluster_ips = vec!["None".into()];
        self
    }

    /// Adds a port.
    pub fn port(mut self, port: ServicePort) -> Self {
        self.ports.push(port);
        self
    }

    /// Selects the pods with this label (and those added before).
    pub fn selector(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.selector.insert(key.into(), value.into());
        self
    }

    /// Adds an annotation.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Keeps each client on one backend, for `timeout` (whole seconds) after its last connection.
    pub fn client_ip_affinity(self, timeout: Duration) -> Self {
        self.spec("sessionAffinity", json!("ClientIP")).spec(
            "sessionAffinityConfig",
            json!({"clientIP": {"timeoutSeconds": timeout.as_secs()}}),
        )
    }

    /// Sends clients only to backends on their own node.
    pub fn internal_traffic_local(self) -> Self {
        self.spec("internalTrafficPolicy", json!("Local"))
    }

    /// Takes pods that are not ready too.
    pub fn publish_not_ready(self) -> Self {
        self.spec("publishNotReadyAddresses", json!(true))
    }

    /// Makes it an alias of a DNS name.
    pub fn external_name(self, name: &str) -> Self {
        self.spec("type", json!("ExternalName"))
            .spec("externalName", json!(name))
    }

    /// Sets any field of `spec`.
    pub fn spec(mut self, field: &str, value: Value) -> Self {
        self.extra.insert(field.into(), value);
        self
    }

    /// The object.
    pub fn value(&self) -> Value {
        let mut spec = Map::new();
        if let Some(first) = self.cluster_ips.first() {
            spec.insert("clusterIP".into(), json!(first));
            spec.insert("clusterIPs".into(), json!(self.cluster_ips));
        }
        if !self.selector.is_empty() {
            spec.insert("selector".into(), json!(self.selector));
        }
        if !self.ports.is_empty() {
            let ports: Vec<Value> = self.ports.iter().map(ServicePort::value).collect();
            spec.insert("ports".into(), json!(ports));
        }
        spec.extend(self.extra.clone());
        let mut metadata = json!({"name": self.name, "namespace": self.namespace});
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    }

    /// The object as YAML.
    pub fn yaml(&self) -> String {
        super::yaml::to_yaml(&self.value())
    }
}
