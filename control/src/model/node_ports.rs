//! Which service has which port of the nodes.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use weft_proto::model::Protocol;

use super::Model;
use super::claims::Claimant;
use crate::object::{ObjectName, Service};

/// A port at the addresses of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodePort {
    /// 1 to 65535.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
}

impl NodePort {
    /// Where a node answers whether it has a backend: taken from the same range.
    #[must_use]
    pub const fn health_check(port: u16) -> Self {
        Self {
            port,
            protocol: Protocol::Tcp,
        }
    }
}

/// All of them. An API server gives each to one service; a folder may say anything.
#[derive(Debug, Default)]
pub(super) struct NodePorts(HashMap<NodePort, BTreeSet<Claimant>>);

impl NodePorts {
    /// Services that have any.
    pub(super) fn services(&self) -> impl Iterator<Item = &ObjectName> {
        self.0.values().flatten().map(|claimant| &claimant.service)
    }

    /// Adds those of a service; returns who wants one of the same.
    pub(super) fn insert(&mut self, claimant: &Claimant, service: &Service) -> Vec<ObjectName> {
        let mut rivals = Vec::new();
        for port in ports(service) {
            let all = self.0.entry(port).or_default();
            rivals.extend(all.iter().map(|c| c.service.clone()));
            all.insert(claimant.clone());
        }
        rivals
    }

    /// Takes those of a service away; returns who wants one of the same.
    pub(super) fn remove(&mut self, claimant: &Claimant, service: &Service) -> Vec<ObjectName> {
        let mut rivals = Vec::new();
        for port in ports(service) {
            let Some(all) = self.0.get_mut(&port) else {
                continue;
            };
            all.remove(claimant);
            rivals.extend(all.iter().map(|c| c.service.clone()));
            if all.is_empty() {
                self.0.remove(&port);
            }
        }
        rivals
    }
}

fn ports(service: &Service) -> impl Iterator<Item = NodePort> {
    let balanced = service.ports.iter().filter_map(|port| {
        Some(NodePort {
            port: port.node_port?,
            protocol: port.protocol,
        })
    });
    let health_check = service.outside.health_check_port;
    balanced.chain(health_check.map(NodePort::health_check))
}

impl Model {
    /// Who has a node port.
    #[must_use]
    pub fn node_port(&self, port: NodePort) -> Option<&Claimant> {
        self.node_ports.0.get(&port)?.first()
    }

    /// Names of all nodes, in no order.
    pub(crate) fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(AsRef::as_ref)
    }

    /// Addresses of all nodes, in no order.
    pub fn node_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.nodes
            .values()
            .flat_map(|node| &node.addresses)
            .copied()
    }
}
