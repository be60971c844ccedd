//! EndpointSlice objects.

use std::net::IpAddr;

use serde_json::{Value, json};

/// One endpoint of a slice: ready and serving unless told otherwise.
#[derive(Debug, Clone)]
pub struct Endpoint {
    address: IpAddr,
    ready: bool,
    serving: bool,
    terminating: bool,
    node: Option<String>,
    zone: Option<String>,
}

impl Endpoint {
    /// A ready endpoint.
    pub fn new(address: impl Into<IpAddr>) -> Self {
        Self {
            address: address.into(),
            ready: true,
            serving: true,
            terminating: false,
            node: None,
            zone: None,
        }
    }

    /// Neither ready nor serving.
    pub fn not_ready(mut self) -> Self {
        self.ready = false;
        self.serving = false;
        self
    }

    /// On its way out, but still serving: no new connections while others are ready.
    pub fn draining(mut self) -> Self {
        self.ready = false;
        self.serving = true;
        self.terminating = true;
        self
    }

    /// Says which node it is on.
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Says which zone it is in.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    fn value(&self) -> Value {
        let mut endpoint = json!({
            "addresses": [self.address],
            "conditions": {"ready": self.ready, "serving": self.serving, "terminating": self.terminating},
        });
        if let Some(node) = &self.node {
            endpoint["nodeName"] = json!(node);
        }
        if let Some(zone) = &self.zone {
            endpoint["zone"] = json!(zone);
        }
        endpoint
    }
}

/// Builds an EndpointSlice; the family is that of its first endpoint.
#[derive(Debug, Clone)]
pub struct EndpointSliceManifest {
    name: String,
    namespace: String,
    service: String,
    ports: Vec<Value>,
    endpoints: Vec<Endpoint>,
}

impl EndpointSliceManifest {
    /// A slice of `service`, in namespace `default`.
    pub fn new(name: impl Into<String>, service: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: "default".into(),
            service: service.into(),
            ports: Vec::new(),
            endpoints: Vec::new(),
        }
    }

    /// Puts it in a namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Adds a port; `name` is the Service port's, empty if that has none. `protocol` is `TCP` or `UDP`.
    pub fn port(mut self, name: &str, protocol: &str, port: u16) -> Self {
        self.ports
            .push(json!({"name": name, "protocol": protocol, "port": port}));
        self
    }

    /// Adds an endpoint.
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoints.push(endpoint);
        self
    }

    /// Adds endpoints.
    pub fn endpoints(mut self, endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        self.endpoints.extend(endpoints);
        self
    }

    /// The object.
    pub fn value(&self) -> Value {
        let is_v6 = self.endpoints.first().is_some_and(|e| e.address.is_ipv6());
        let endpoints: Vec<Value> = self.endpoints.iter().map(Endpoint::value).collect();
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {"kubernetes.io/service-name": self.service},
            },
            "addressType": if is_v6 { "IPv6" } else { "IPv4" },
            "ports": self.ports,
            "endpoints": endpoints,
        })
    }

    /// The object as YAML.
    pub fn yaml(&self) -> String {
        super::yaml::to_yaml(&self.value())
    }
}
