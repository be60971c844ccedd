//! Connections where policies may go wrong: from and to the edges of their CIDRs and port ranges, and from and to pods.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::cluster::is_local;
use super::{Random, cluster, pool};
use crate::connection::{Connection, Protocol};
use crate::evaluate::Cidr;
use crate::object::Cluster;

/// What a cluster's connections are chosen from.
#[derive(Clone, Debug)]
pub struct Boundaries {
    /// Of the node's own pods.
    local: Vec<IpAddr>,
    /// Of pods and nodes.
    known: Vec<IpAddr>,
    /// First and last of each CIDR, and their neighbours.
    edges: Vec<IpAddr>,
    /// Those that are mentioned, and their neighbours.
    ports: Vec<u16>,
}

impl Boundaries {
    /// Those of a cluster.
    #[must_use]
    pub fn of(cluster: &Cluster) -> Self {
        let mut mentioned = Mentioned::default();
        for document in cluster.documents() {
            if let Ok(value) = serde_json::to_value(&document) {
                mentioned.look(&value);
            }
        }
        let pods = cluster.pods.iter();
        let addresses = |local: bool| {
            pods.clone()
                .filter(move |p| !local || is_local(p))
                .flat_map(|p| {
                    p.status
                        .pod_ips
                        .iter()
                        .map(|ip| ip.ip)
                        .filter(|ip| p.owns(*ip))
                })
                .collect::<Vec<_>>()
        };
        let nodes = cluster.nodes.iter();
        let nodes = nodes.flat_map(|n| n.status.addresses.iter().map(|a| a.address));
        Self {
            local: addresses(true),
            known: addresses(false).into_iter().chain(nodes).collect(),
            edges: mentioned.addresses.into_iter().filter(is_unicast).collect(),
            ports: mentioned.ports.into_iter().chain(pool::PORTS).collect(),
        }
    }

    /// One that the node judges; `None` if it has no pods, or the one that was chosen has nobody to talk to.
    pub fn connection(&self, random: &mut Random) -> Option<Connection> {
        if self.local.is_empty() {
            return None;
        }
        let pod = random.pick(&self.local);
        let peers: Vec<IpAddr> = match random.number(0..=5) {
            0 | 1 if !self.edges.is_empty() => self.edges.clone(),
            2 => vec![cluster::any_address(random)],
            _ => self.known.clone(),
        };
        let peers: Vec<IpAddr> = peers
            .into_iter()
            .filter(|peer| *peer != pod && peer.is_ipv4() == pod.is_ipv4())
            .collect();
        if peers.is_empty() {
            return None;
        }
        let peer = random.pick(&peers);
        let (source, destination) = if random.one_in(2) {
            (pod, peer)
        } else {
            (peer, pod)
        };
        Some(self.between(random, source, destination))
    }

    fn between(&self, random: &mut Random, source: IpAddr, destination: IpAddr) -> Connection {
        let protocol = match random.number(0..=9) {
            0..=4 => Protocol::Tcp,
            5 | 6 => Protocol::Udp,
            7 => Protocol::Sctp,
            8 => Protocol::Icmp,
            _ => Protocol::Gre,
        };
        let mut port = || match random.number(0..=7) {
            0 => random.number(0..=u16::MAX.into()) as u16,
            _ => random.pick(&self.ports),
        };
        let (source_port, destination_port) = if protocol.has_ports() {
            (port(), port())
        } else {
            (0, 0)
        };
        Connection {
            source,
            destination,
            protocol,
            source_port,
            destination_port,
        }
    }
}

/// All that looks like a CIDR or a port in manifests.
#[derive(Default)]
struct Mentioned {
    addresses: BTreeSet<IpAddr>,
    ports: BTreeSet<u16>,
}

impl Mentioned {
    fn look(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.look(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.look(field)),
            Value::Number(number) => {
                if let Some(port) = number.as_u64().and_then(|n| u16::try_from(n).ok()) {
                    self.port(port);
                }
            }
            Value::String(text) => match (text.parse::<Cidr>(), text.parse::<u16>()) {
                (Ok(cidr), _) => self.cidr(&cidr),
                (_, Ok(port)) => self.port(port),
                _ => {}
            },
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn port(&mut self, port: u16) {
        self.ports
            .extend([port.saturating_sub(1), port, port.saturating_add(1)]);
    }

    fn cidr(&mut self, cidr: &Cidr) {
        let (first, last) = cidr.bounds();
        self.addresses
            .extend([next(first, -1), first, last, next(last, 1)]);
    }
}

/// The address beside it; itself at the end of all.
fn next(address: IpAddr, step: i8) -> IpAddr {
    let moved = |number: u128, max: u128| match step {
        1 => number.saturating_add(1).min(max),
        _ => number.saturating_sub(1),
    };
    match address {
        IpAddr::V4(v4) => IpAddr::V4((moved(u32::from(v4).into(), u32::MAX.into()) as u32).into()),
        IpAddr::V6(v6) => IpAddr::V6(moved(v6.into(), u128::MAX).into()),
    }
}

/// What a router would forward: the rest has rules of its own.
fn is_unicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => {
            !(a.is_unspecified() || a.is_broadcast() || a.is_multicast() || a.is_loopback())
        }
        IpAddr::V6(a) => {
            !(a.is_unspecified()
                || a.is_multicast()
                || a.is_loopback()
                || a.is_unicast_link_local()
                || a.to_ipv4_mapped().is_some())
        }
    }
}
