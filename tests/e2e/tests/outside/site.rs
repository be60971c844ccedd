//! Two nodes of a cluster, and a machine that is none of its nodes.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};
use weft_e2e::mesh::{PORT, TARGET, vip_addresses};
use weft_e2e::{Mesh, Result};
use weft_lab::manifest::ServiceManifest;
use weft_lab::{DualStack, Lab, LabBuilder, Place, PodSpec, WeftOptions};

/// Port of all nodes.
pub const NODE_PORT: u16 = 30_080;
/// All backends; `near` is on the node `n1`.
pub const BACKENDS: [&str; 3] = ["near", "far", "farther"];
/// The machine outside.
pub const OUTSIDE: &str = "outside";

/// A cluster with a client outside, and backends on both nodes.
pub struct Site {
    pub mesh: Mesh,
}

fn lab() -> LabBuilder {
    let backend = |name: &str, node: &str| PodSpec::new(name, node).label("app", "web");
    Lab::builder()
        .node("n1")
        .node("n2")
        .node(OUTSIDE)
        .pod(backend("near", "n1"))
        .pod(backend("far", "n2"))
        .pod(backend("farther", "n2"))
}

/// The service of all backends, with these fields of its spec.
pub fn service(fields: &Value) -> ServiceManifest {
    let ports = json!([
        {"name": "tcp", "port": PORT, "targetPort": TARGET, "nodePort": NODE_PORT},
        {"name": "udp", "port": PORT, "targetPort": TARGET, "nodePort": NODE_PORT, "protocol": "UDP"},
    ]);
    let service = ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .selector("app", "web")
        .spec("type", json!("LoadBalancer"))
        .spec("ports", ports);
    let fields = fields.as_object().into_iter().flatten();
    fields.fold(service, |service, (name, value)| {
        service.spec(name, value.clone())
    })
}

impl Site {
    pub fn start() -> Result<Self> {
        let mut mesh = Mesh::start_beside(lab(), &[OUTSIDE], &WeftOptions::default())?;
        mesh.serve(&BACKENDS)?;
        Ok(Self { mesh })
    }

    /// Where the client is.
    pub fn client(&self) -> Result<Place> {
        Ok(self.mesh.lab.node(OUTSIDE)?.host().clone())
    }

    pub fn addresses_of(&self, node: &str) -> Result<DualStack> {
        Ok(self.mesh.lab.node(node)?.addresses())
    }

    /// Where the service is at a node.
    pub fn node_ports(&self, node: &str) -> Result<[SocketAddr; 2]> {
        Ok(self.addresses_of(node)?.sockets(NODE_PORT))
    }

    /// Has the machine outside send what is for `address` to a node.
    pub fn route(&self, address: IpAddr, node: &str) -> Result {
        let via = self.addresses_of(node)?;
        let via: IpAddr = match address {
            IpAddr::V4(_) => via.v4.into(),
            IpAddr::V6(_) => via.v6.into(),
        };
        let outside = self.mesh.lab.node(OUTSIDE)?;
        Ok(outside.netns().ip(&format!(
            "route replace {address} via {via} dev {}\n",
            outside.uplink()
        ))?)
    }
}
