//! What a control plane and the node's interfaces say, and an engine that is told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU32;

use weft_proto::model::policy::{
    Cidr, Direction, Effect, Expr, IpProtocol, Match, Mode, ObjectRef, Policy, Rule, Selector, Tier,
};
use weft_proto::model::{NamedPort, Workload, WorkloadKind};

use super::evaluate::Port;
use super::kernel::Kernel;
use crate::interfaces::{InterfaceIndex, LocalInterfaces};
use crate::policy::{PolicyConfig, PolicyEngine};
use crate::tables::policy::Verdict;

pub(super) const HERE: &str = "here";

/// Everything that is true at a moment.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) policies: BTreeMap<String, Policy>,
    pub(super) workloads: BTreeMap<String, Workload>,
    /// Interfaces that lead to local pods.
    pub(super) interfaces: BTreeMap<IpAddr, u32>,
    /// The node's own addresses.
    pub(super) host: BTreeSet<IpAddr>,
    pub(super) default: Verdict,
}

pub(super) fn ip(address: &str) -> IpAddr {
    address.parse().expect("address")
}

pub(super) fn cidr(text: &str) -> Cidr {
    let (address, prefix) = text.split_once('/').expect("prefix");
    Cidr::new(ip(address), prefix.parse().expect("number")).expect("cidr")
}

pub(super) fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// A pod of this node, "namespace/name".
pub(super) fn pod(name: &str, address: &str, text: &str) -> Workload {
    let (namespace, _) = name.split_once('/').expect("namespace");
    Workload {
        name: format!("pod/{name}"),
        kind: WorkloadKind::Pod,
        addresses: vec![ip(address)],
        node: HERE.to_owned(),
        zone: String::new(),
        namespace: namespace.to_owned(),
        service_account: "default".to_owned(),
        labels: labels(text),
        spiffe_id: format!("spiffe://mesh/ns/{namespace}/sa/default"),
        host_network: false,
        unaccelerated: false,
        out_of_mesh: false,
        mtls: Default::default(),
        ports: vec![NamedPort {
            name: "http".to_owned(),
            port: 80,
            protocol: IpProtocol::Tcp,
        }],
    }
}

pub(super) fn node(name: &str, address: &str) -> Workload {
    Workload {
        name: format!("node/{name}"),
        kind: WorkloadKind::Node,
        node: name.to_owned(),
        namespace: String::new(),
        service_account: String::new(),
        spiffe_id: String::new(),
        ports: Vec::new(),
        ..pod("x/x", address, "")
    }
}

/// A NetworkPolicy of the namespace with these rules.
pub(super) fn policy(name: &str, direction: Direction, rules: &[(&str, Expr, Expr)]) -> Policy {
    let (namespace, object) = name.split_once('/').expect("namespace");
    Policy {
        name: name.to_owned(),
        origin: ObjectRef {
            kind: "NetworkPolicy".to_owned(),
            namespace: namespace.to_owned(),
            name: object.to_owned(),
        },
        selector: Selector {
            namespaces: Some(BTreeSet::from([namespace.to_owned()])),
            labels: Vec::new(),
        },
        direction,
        tier: Tier::Namespace,
        priority: 0,
        mode: Mode::Enforce,
        effect: Effect::Allow,
        rules: rules
            .iter()
            .map(|(name, source, destination)| {
                let rule = Rule {
                    source: source.clone(),
                    destination: destination.clone(),
                };
                ((*name).to_owned(), rule)
            })
            .collect(),
    }
}

pub(super) fn in_cidr(text: &str) -> Expr {
    Expr::Is(Match::Address(cidr(text)))
}

pub(super) const fn tcp(number: u16) -> Port {
    Port {
        protocol: Some(IpProtocol::Tcp),
        number,
    }
}

impl Port {
    pub(super) fn point(self) -> u32 {
        let class = match self.protocol {
            Some(IpProtocol::Tcp) => 0,
            Some(IpProtocol::Udp) => 1,
            Some(IpProtocol::Sctp) => 2,
            Some(IpProtocol::Icmp) => 3,
            None => 4,
        };
        class << 16 | u32::from(self.number)
    }
}

impl World {
    pub(super) fn new(default: Verdict) -> Self {
        Self {
            policies: BTreeMap::new(),
            workloads: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            host: BTreeSet::from([ip("10.0.0.1")]),
            default,
        }
    }

    pub(super) fn interfaces(&self) -> LocalInterfaces {
        let pods = self.interfaces.iter().map(|(address, index)| {
            let index = InterfaceIndex(NonZeroU32::new(*index).expect("not zero"));
            (*address, index)
        });
        LocalInterfaces {
            pods: pods.collect(),
            host: self.host.clone(),
            settled: true,
        }
    }

    /// Local pods and where they are reached.
    pub(super) fn local(&self) -> impl Iterator<Item = (&Workload, IpAddr, u32)> {
        let local =
            |w: &&Workload| w.kind == WorkloadKind::Pod && !w.host_network && w.node == HERE;
        self.workloads.values().filter(local).flat_map(move |w| {
            let at = w.addresses.iter();
            at.filter_map(move |a| Some((w, *a, *self.interfaces.get(a)?)))
        })
    }
}

/// An engine over a kernel, fed as the worker feeds it.
pub(super) struct Node {
    pub(super) engine: PolicyEngine,
    pub(super) kernel: Kernel,
}

impl Node {
    /// Over whatever the kernel holds, knowing nothing yet.
    pub(super) fn starting(kernel: &Kernel, world: &World) -> Self {
        let config = PolicyConfig {
            node: HERE.to_owned(),
            default: world.default,
            opens_tunnels: false,
        };
        Self {
            engine: PolicyEngine::new(kernel.tables(), config).expect("tables can be read"),
            kernel: kernel.clone(),
        }
    }

    /// Told everything.
    pub(super) fn started(kernel: &Kernel, world: &World) -> Self {
        let mut node = Self::starting(kernel, world);
        node.replay(world);
        node
    }

    pub(super) fn replay(&mut self, world: &World) {
        for (name, workload) in &world.workloads {
            self.engine.set_workload(name, workload.clone());
        }
        for (name, policy) in &world.policies {
            self.engine.set_policy(name, policy.clone());
        }
        self.engine.set_interfaces(world.interfaces());
        self.engine.apply();
        self.engine.set_synced();
        self.engine.apply();
    }

    pub(super) fn set_policy(&mut self, world: &mut World, policy: Policy) {
        world.policies.insert(policy.name.clone(), policy.clone());
        self.engine.set_policy(&policy.name.clone(), policy);
        self.engine.apply();
    }

    pub(super) fn set_workload(&mut self, world: &mut World, workload: Workload) {
        let name = workload.name.clone();
        world.workloads.insert(name.clone(), workload.clone());
        self.engine.set_workload(&name, workload);
        self.engine.apply();
    }

    pub(super) fn set_interfaces(&mut self, world: &World) {
        self.engine.set_interfaces(world.interfaces());
        self.engine.apply();
    }
}
