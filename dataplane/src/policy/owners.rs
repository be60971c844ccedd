//! Who has which address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use weft_proto::model::policy::{IpProtocol, PeerKind};
use weft_proto::model::{Workload, WorkloadKind};

use super::subject::{NamedPorts, Subject};
use crate::interfaces::LocalInterfaces;
use crate::tables::policy::NodePart;

/// A workload and what policies see of it.
#[derive(Debug)]
struct Known {
    workload: Workload,
    subject: Arc<Subject>,
}

/// Whose an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner<'a> {
    /// `None`: this node, of which nothing but the address is known.
    pub(super) workload: Option<&'a str>,
    pub(super) subject: Arc<Subject>,
    /// Of a local pod; else 0.
    pub(super) interface: u32,
}

/// Pods, nodes and local interfaces, by address.
pub(super) struct Owners {
    here: String,
    workloads: BTreeMap<String, Known>,
    names: HashMap<IpAddr, BTreeSet<String>>,
    nodes: HashMap<String, Arc<Subject>>,
    interfaces: LocalInterfaces,
}

impl Owners {
    pub(super) fn new(here: &str) -> Self {
        Self {
            here: here.to_owned(),
            workloads: BTreeMap::new(),
            names: HashMap::new(),
            nodes: HashMap::new(),
            interfaces: LocalInterfaces::default(),
        }
    }

    /// Returns the addresses whose owner may be another now.
    pub(super) fn set(&mut self, name: &str, workload: Workload) -> Vec<IpAddr> {
        if self.get(name) == Some(&workload) {
            return Vec::new();
        }
        let mut touched = self.remove(name);
        touched.extend(&workload.addresses);
        for address in &workload.addresses {
            let names = self.names.entry(*address).or_default();
            names.insert(name.to_owned());
        }
        let subject = Arc::new(self.describe(&workload));
        if workload.kind == WorkloadKind::Node {
            self.nodes
                .insert(workload.node.clone(), Arc::clone(&subject));
            touched.extend(self.of_node(&workload.node));
        }
        let known = Known { workload, subject };
        self.workloads.insert(name.to_owned(), known);
        touched
    }

    /// As [`Owners::set`].
    pub(super) fn remove(&mut self, name: &str) -> Vec<IpAddr> {
        let Some(Known { workload, .. }) = self.workloads.remove(name) else {
            return Vec::new();
        };
        for address in &workload.addresses {
            if let Some(names) = self.names.get_mut(address) {
                names.remove(name);
                if names.is_empty() {
                    self.names.remove(address);
                }
            }
        }
        let mut touched = workload.addresses;
        if workload.kind == WorkloadKind::Node {
            self.nodes.remove(&workload.node);
            touched.extend(self.of_node(&workload.node));
        }
        touched
    }

    /// As [`Owners::set`].
    pub(super) fn set_interfaces(&mut self, mut interfaces: LocalInterfaces) -> BTreeSet<IpAddr> {
        // Nothing between a node and its pods has a loopback address. Where the node routes them (route_localnet), a pod would reach
        // what listens for the node alone, past its policies.
        interfaces.host.retain(|address| !address.is_loopback());
        let old = std::mem::replace(&mut self.interfaces, interfaces);
        let new = &self.interfaces;
        let moved = |a: &LocalInterfaces, b: &LocalInterfaces| {
            let pods = a
                .pods
                .iter()
                .filter(|(at, index)| b.pods.get(at) != Some(index));
            let pods: Vec<IpAddr> = pods.map(|(address, _)| *address).collect();
            let host = a.host.difference(&b.host).copied();
            pods.into_iter().chain(host).collect::<Vec<_>>()
        };
        let (gone, come) = (moved(&old, new), moved(new, &old));
        gone.into_iter().chain(come).collect()
    }

    pub(super) const fn interfaces(&self) -> &LocalInterfaces {
        &self.interfaces
    }

    pub(super) fn get(&self, name: &str) -> Option<&Workload> {
        self.workloads.get(name).map(|known| &known.workload)
    }

    pub(super) fn subject(&self, name: &str) -> Option<&Arc<Subject>> {
        self.workloads.get(name).map(|known| &known.subject)
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let host = self.interfaces.host.iter();
        self.names.keys().chain(host).copied()
    }

    /// Pods of this node that have addresses of their own, and are in the mesh.
    pub(super) fn local_pods(&self) -> impl Iterator<Item = &Workload> {
        let all = self.workloads.values().map(|known| &known.workload);
        all.filter(|workload| self.is_local(workload))
    }

    pub(super) fn is_local(&self, workload: &Workload) -> bool {
        workload.kind == WorkloadKind::Pod
            && !workload.host_network
            && !workload.out_of_mesh
            && workload.node == self.here
    }

    /// A node before its host-network pods, these before others, and of those a local one.
    pub(super) fn owner(&self, address: IpAddr) -> Option<Owner<'_>> {
        if self.interfaces.host.contains(&address) {
            let subject = self.node(&self.here);
            let workload = None;
            let interface = 0;
            return Some(Owner {
                workload,
                subject,
                interface,
            });
        }
        let known = self.names.get(&address)?.iter();
        let known = known.filter_map(|name| self.workloads.get_key_value(name));
        let (name, first) =
            known.min_by_key(|(_, Known { workload, .. })| match workload.kind {
                WorkloadKind::Node => 0,
                WorkloadKind::Pod if workload.host_network => 1,
                WorkloadKind::Pod if workload.node == self.here => 2,
                WorkloadKind::Pod => 3,
            })?;
        let shares = first.workload.host_network && first.workload.kind == WorkloadKind::Pod;
        let interface = match self.is_local(&first.workload) {
            true => self.interfaces.pods.get(&address).map_or(0, |i| i.get()),
            false => 0,
        };
        Some(Owner {
            workload: Some(name),
            subject: match shares {
                true => self.node(&first.workload.node),
                false => Arc::clone(&first.subject),
            },
            interface,
        })
    }

    /// What policies see of a node, though it may have told nothing of itself.
    fn node(&self, name: &str) -> Arc<Subject> {
        let known = self.nodes.get(name).cloned();
        known.unwrap_or_else(|| Arc::new(self.node_subject(name, BTreeMap::new())))
    }

    fn node_subject(&self, name: &str, labels: BTreeMap<String, String>) -> Subject {
        Subject {
            kind: PeerKind::Node,
            node: match name == self.here {
                true => NodePart::Host,
                false => NodePart::Remote,
            },
            labels,
            ..Subject::external()
        }
    }

    fn describe(&self, workload: &Workload) -> Subject {
        match workload.kind {
            WorkloadKind::Node => self.node_subject(&workload.node, workload.labels.clone()),
            WorkloadKind::Pod => Subject {
                kind: PeerKind::Pod,
                node: NodePart::None,
                namespace: workload.namespace.clone(),
                service_account: workload.service_account.clone(),
                labels: workload.labels.clone(),
                ports: named_ports(workload),
                spiffe_id: workload.spiffe_id.clone(),
            },
        }
    }

    /// Addresses that count as the node's, besides those that it names itself.
    fn of_node(&self, node: &str) -> Vec<IpAddr> {
        let pods = self.workloads.values().map(|known| &known.workload);
        let sharing = pods.filter(|pod| pod.host_network && pod.node == node);
        let shared = sharing.flat_map(|pod| &pod.addresses).copied();
        let host = self.interfaces.host.iter().filter(|_| node == self.here);
        shared.chain(host.copied()).collect()
    }
}

/// The first port of each name and protocol counts.
fn named_ports(workload: &Workload) -> BTreeMap<String, NamedPorts> {
    let mut names: BTreeMap<String, NamedPorts> = BTreeMap::new();
    for port in &workload.ports {
        let ports = names.entry(port.name.clone()).or_default();
        let number = match port.protocol {
            IpProtocol::Tcp => &mut ports.tcp,
            IpProtocol::Udp => &mut ports.udp,
            IpProtocol::Sctp => &mut ports.sctp,
            IpProtocol::Icmp => continue,
        };
        if *number == 0 {
            *number = port.port;
        }
    }
    names
}
