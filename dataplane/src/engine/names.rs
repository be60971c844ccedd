//! The engine's resources as names for what the kernel tells in numbers.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use weft_proto::model::{Layer, Listener, Protocol, Side, Workload, WorkloadKind};

use super::Engine;
use super::resources::keys;
use super::service::ServiceName;
use crate::check::{Directory, ServicePort};
use crate::compile::Family;
use crate::flow::{Names, RuleName, protocol};
use crate::tables::policy::IdentityNumber;
use crate::tables::{ServiceId, ServiceKey};

impl Engine {
    /// The listener through which clients reach this service of the tables.
    fn listener_of(&self, name: &ServiceName) -> Option<&Listener> {
        let vip = self.resources.vips.get(name)?.first()?;
        self.resources.owner(vip)
    }

    fn service_port(&self, listener: &Listener) -> ServicePort {
        let families = Family::ALL
            .into_iter()
            .filter(|family| keys(listener).any(|key| Family::of(key.address) == *family));
        let backends = families.flat_map(|family| {
            let name = ServiceName {
                cluster: listener.cluster.as_str().into(),
                family,
            };
            let service = self.services.get(&name);
            let backends = service.into_iter().flat_map(|s| &s.backends);
            backends.filter(|b| b.accepts).map(|b| b.address)
        });
        ServicePort {
            service: super::view::service_name(listener),
            port: listener.port,
            protocol: protocol::of(listener.protocol),
            backends: backends.collect(),
            by_proxy: listener.layer == Layer::Seven,
        }
    }
}

impl Names for Engine {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn workload(&self, address: IpAddr) -> Option<&Workload> {
        // "node/..." comes before "pod/...": of those that share a node's address, the node.
        let name = self.resources.workload_at(address)?;
        self.resources.workloads.get(name)
    }

    fn service(&self, id: u32) -> Option<String> {
        let name = self.service_names.get(&ServiceId(id))?;
        let listener = self.listener_of(name)?;
        Some(super::view::service_name(listener))
    }

    fn service_at(&self, vip: SocketAddr, protocol: u8) -> Option<String> {
        let key = ServiceKey {
            address: vip.ip(),
            port: vip.port(),
            protocol: transport(protocol)?,
            side: Side::Inside,
        };
        let listener = self.resources.owner(&key)?;
        Some(super::view::service_name(listener))
    }

    fn rule(&self, id: u32) -> Option<RuleName> {
        let rule = self.policies.rule(id)?;
        Some(RuleName {
            object: rule.origin.clone(),
            rule: rule.rule.clone(),
        })
    }

    fn identity(&self, number: u32) -> Option<String> {
        let identity = self.policies.identity(IdentityNumber(number))?;
        Some(identity.to_string())
    }
}

impl Directory for Engine {
    fn node(&self) -> &str {
        &self.here.node
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<&Workload> {
        let pod = self
            .resources
            .workloads
            .get(&format!("pod/{namespace}/{name}"));
        pod.filter(|pod| pod.kind == WorkloadKind::Pod)
    }

    fn service_ports(&self, namespace: &str, name: &str) -> Vec<ServicePort> {
        let is_meant = |listener: &&Listener| {
            let service = listener.service.as_ref();
            service.is_some_and(|s| s.namespace == namespace && s.name == name)
        };
        let listeners = self.resources.listeners.values().filter(is_meant);
        listeners.map(|l| self.service_port(l)).collect()
    }

    fn service_ports_at(&self, address: IpAddr) -> Vec<ServicePort> {
        let listeners = self.resources.listeners.values();
        listeners
            .filter(|l| l.addresses.contains(&address))
            .map(|l| self.service_port(l))
            .collect()
    }

    fn ports_behind(&self, addresses: &[IpAddr]) -> Vec<(u16, u8)> {
        let mut ports = BTreeSet::new();
        for (name, service) in &self.services {
            let Some(listener) = self.listener_of(name) else {
                continue;
            };
            let behind = service
                .backends
                .iter()
                .filter(|backend| addresses.contains(&backend.address.ip()));
            ports.extend(behind.map(|b| (b.address.port(), protocol::of(listener.protocol))));
        }
        ports.into_iter().collect()
    }
}

const fn transport(number: u8) -> Option<Protocol> {
    match number {
        protocol::TCP => Some(Protocol::Tcp),
        protocol::UDP => Some(Protocol::Udp),
        _ => None,
    }
}
