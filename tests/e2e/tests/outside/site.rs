//! Two nodes of a cluster, and a machine that is none of its nodes.

use std::net::{IpAddr, SocketAddr};

use anyhow::ensure;
use serde_json::{Value, json};
use weft_e2e::mesh::{PORT, TARGET, vip_addresses};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::ServiceManifest;
use weft_lab::{DualStack, Lab, LabBuilder, Place, PodSpec, WeftOptions, addr};

/// Port of all nodes.
pub(crate) const NODE_PORT: u16 = 30_080;
/// All backends; `near` is on the node `n1`.
pub(crate) const BACKENDS: [&str; 3] = ["near", "far", "farther"];
/// Of a narrow way; the links have 1500.
const MTU: u32 = 1300;
/// A pod of the machine outside, behind another network.
pub(crate) const BEHIND: &str = "behind";
/// The machine outside.
pub(crate) const OUTSIDE: &str = "outside";

/// A cluster with a client outside, and backends on both nodes.
pub(crate) struct Site {
    pub(crate) mesh: Mesh,
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
        .pod(PodSpec::new(BEHIND, OUTSIDE))
}

/// Addresses of no machine, at which the service is from outside.
pub(crate) fn external(index: u8) -> [IpAddr; 2] {
    let v6 = format!("2001:db8:e::{index:x}");
    [
        IpAddr::from([192, 0, 2, index]),
        v6.parse().unwrap_or(IpAddr::from([0; 16])),
    ]
}

impl Site {
    pub(crate) fn start() -> Result<Self> {
        Self::start_with(&WeftOptions::default())
    }

    pub(crate) fn start_with(options: &WeftOptions) -> Result<Self> {
        let mut site = Self::start_bare(options)?;
        site.mesh.serve(&BACKENDS)?;
        Ok(site)
    }

    /// Without servers.
    pub(crate) fn start_bare(options: &WeftOptions) -> Result<Self> {
        let mesh = Mesh::start_beside(lab(), &[OUTSIDE], options)?;
        Ok(Self { mesh })
    }

    /// Publishes the service of all backends with these fields of its spec, and a load balancer's addresses; each node has `ready` backends.
    pub(crate) fn service(&self, fields: &Value, balancer: &[IpAddr], ready: u64) -> Result {
        let ports = json!([
            {"name": "tcp", "port": PORT, "targetPort": TARGET, "nodePort": NODE_PORT},
            {"name": "udp", "port": PORT, "targetPort": TARGET, "nodePort": NODE_PORT, "protocol": "UDP"},
        ]);
        let service = ServiceManifest::new("web")
            .cluster_ips(vip_addresses(0))
            .selector("app", "web")
            .spec("type", json!("LoadBalancer"))
            .spec("ports", ports);
        let mut value = service.value();
        for (name, field) in fields.as_object().into_iter().flatten() {
            value["spec"][name] = field.clone();
        }
        let ingress: Vec<Value> = balancer.iter().map(|ip| json!({"ip": ip})).collect();
        value["status"] = json!({"loadBalancer": {"ingress": ingress}});
        self.mesh.apply("service-web", &value.to_string())?;
        self.settled(ready)
    }

    /// Waits until each listener for clients outside has as many backends as its cluster has on the node.
    fn settled(&self, ready: u64) -> Result {
        eventually(LONG, || {
            for node in ["n1", "n2"] {
                let rows = self.outside_rows(node)?;
                ensure!(!rows.is_empty(), "{node}: nothing is for clients outside");
                let local = rows.iter().any(|row| row["locality"] == "NodeOnly");
                let expected = if local {
                    1 + u64::from(node == "n2")
                } else {
                    3
                };
                let expected = expected.min(ready);
                for row in rows {
                    let families = row["ids"].as_array().map_or(0, Vec::len) as u64;
                    ensure!(
                        row["ready"] == expected * families,
                        "{node}: {expected} expected: {row}"
                    );
                }
            }
            Ok(())
        })
    }

    /// Rows of `weft services` that are for clients outside.
    pub(crate) fn outside_rows(&self, node: &str) -> Result<Vec<Value>> {
        let rows = self.mesh.services(node, "default/web")?;
        Ok(rows
            .into_iter()
            .filter(|row| row["side"] == "outside")
            .collect())
    }

    /// Where the client is.
    pub(crate) fn client(&self) -> Result<Place> {
        Ok(self.mesh.lab.node(OUTSIDE)?.host().clone())
    }

    pub(crate) fn addresses_of(&self, node: &str) -> Result<DualStack> {
        Ok(self.mesh.lab.node(node)?.addresses())
    }

    /// Where the service is at a node.
    pub(crate) fn node_ports(&self, node: &str) -> Result<[SocketAddr; 2]> {
        Ok(self.addresses_of(node)?.sockets(NODE_PORT))
    }

    /// Makes the way from `node` to the pods and addresses behind `peer` narrower than their links.
    pub(crate) fn narrow(&self, node: &str, peer: &str) -> Result {
        let node = self.mesh.lab.node(node)?;
        let peer = self.mesh.lab.node(peer)?;
        let (v4, v6) = addr::pod_cidrs(peer.index());
        let (via, dev) = (peer.addresses(), node.uplink());
        Ok(node.netns().ip(&format!(
            "route change {v4} via {} dev {dev} mtu {MTU}\nroute change {v6} via {} dev {dev} mtu {MTU}\n",
            via.v4, via.v6,
        ))?)
    }

    /// Has the machine outside send what is for `address` to a node.
    pub(crate) fn route(&self, address: IpAddr, node: &str) -> Result {
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
