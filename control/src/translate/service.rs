//! A service's listeners and clusters.

mod outside;

use std::net::IpAddr;

use weft_proto::model::{
    Cluster, EndpointSource, Layer, LbPolicy, Listener, LocalityMode, Protocol, RouteTable,
    ServiceRef, Side,
};

use super::{
    ServiceResources, balanced_ports, conflicts, proxyless, resource_name, routes,
    service_endpoints,
};
use crate::model::{Claim, Entry, Model, NodePort};
use crate::object::{ObjectName, Service, ServicePort, TrafficPolicy};

/// Ends the name of a node port's listener.
const AT_NODES: &str = "@nodes";

/// Everything that follows from the service `name`, which need not exist: then only the problems of what refers to it.
#[must_use]
pub fn service(model: &Model, name: &ObjectName) -> ServiceResources {
    let mut problems = conflicts::of_service(model, name);
    problems.extend(routes::problems(model, name));
    let Some(Entry { spec: service, .. }) = model.service(name) else {
        return ServiceResources {
            problems,
            ..ServiceResources::default()
        };
    };
    let policy = model
        .policies(name)
        .first()
        .map(|(_, entry)| entry.spec.as_ref().clone())
        .unwrap_or_default();
    let ports = balanced_ports(service);
    let routes: Vec<RouteTable> = ports
        .iter()
        .filter_map(|port| routes::of_port(model, name, port))
        .collect();
    let (client_listeners, client_routes) = proxyless::of_service(name, service, &routes);
    let mut resources = ServiceResources {
        endpoints: service_endpoints(model, name),
        client_listeners,
        client_routes,
        problems,
        ..ServiceResources::default()
    };
    for port in ports {
        let port = BalancedPort {
            model,
            name,
            service,
            port,
            policy: &policy,
        };
        port.add(&routes, &mut resources);
    }
    resources.routes = routes;
    resources
}

/// A port of a service, and what decides about it.
#[derive(Clone, Copy)]
struct BalancedPort<'a> {
    model: &'a Model,
    name: &'a ObjectName,
    service: &'a Service,
    port: &'a ServicePort,
    policy: &'a TrafficPolicy,
}

impl BalancedPort<'_> {
    /// Adds its listeners and clusters.
    fn add(self, routes: &[RouteTable], resources: &mut ServiceResources) {
        let resource = self.resource();
        let has_routes = routes.iter().any(|table| table.name == resource);
        let at_nodes = self.at_nodes();
        let (outside, outside_cluster) = outside::of_port(self, at_nodes.as_ref());
        let own = self
            .at(resource, self.owned(&self.service.addresses))
            .map(|listener| Listener {
                // A port that has routes goes through Envoy.
                layer: if has_routes {
                    Layer::Seven
                } else {
                    Layer::Four
                },
                ..listener
            });
        resources.listeners.extend(own);
        // Where there are routes it is left out: nobody hands connections to a node's address over to Envoy.
        let at_nodes = at_nodes.filter(|_| !has_routes);
        resources.listeners.extend(at_nodes);
        resources.listeners.extend(outside);
        resources.clusters.push(self.cluster());
        resources.clusters.extend(outside_cluster);
    }

    fn resource(self) -> String {
        resource_name(self.name, self.port.port, self.port.protocol)
    }

    /// The node port, at the addresses of all nodes.
    fn at_nodes(self) -> Option<Listener> {
        let number = self.port.node_port?;
        let winner = self.model.node_port(NodePort {
            port: number,
            protocol: self.port.protocol,
        })?;
        if winner.service != *self.name {
            return None;
        }
        let mut addresses: Vec<IpAddr> = self
            .model
            .node_addresses()
            .filter(|address| self.service.has_family_of(*address))
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        let listener = self.at(format!("{}{AT_NODES}", self.resource()), addresses)?;
        Some(Listener {
            port: number,
            ..listener
        })
    }

    /// The port at `addresses`; `None` when these are none.
    fn at(self, name: String, addresses: Vec<IpAddr>) -> Option<Listener> {
        (!addresses.is_empty()).then(|| Listener {
            name,
            cluster: self.resource(),
            service: Some(ServiceRef {
                namespace: self.name.namespace.to_string(),
                name: self.name.name.to_string(),
                port_name: self.port.name.clone(),
            }),
            addresses,
            port: self.port.port,
            protocol: self.port.protocol,
            layer: Layer::Four,
            side: Side::Inside,
            source_ranges: Vec::new(),
            health_check_port: None,
            idle_timeout: self.policy.idle_timeout,
            max_duration: self.policy.max_duration,
            connections_per_second: self.policy.connections_per_second,
        })
    }

    /// Those of `addresses` that no other service has.
    fn owned(self, addresses: &[IpAddr]) -> Vec<IpAddr> {
        let own = |address: &IpAddr| {
            let claim = Claim {
                address: *address,
                port: self.port.port,
                protocol: self.port.protocol,
            };
            let winner = self.model.claimants(&claim).and_then(|all| all.first());
            winner.is_some_and(|winner| winner.service == *self.name)
        };
        addresses.iter().copied().filter(own).collect()
    }

    fn cluster(self) -> Cluster {
        let resource = self.resource();
        Cluster {
            endpoints: EndpointSource::Eds(resource.clone()),
            name: resource,
            policy: self.policy.policy.unwrap_or(LbPolicy::Random),
            affinity: self.policy.affinity.or(self.service.affinity),
            locality: self.locality(self.service.locality),
            connect_timeout: self.policy.connect_timeout,
            max_connections: self.policy.max_connections,
            outlier: self.policy.outlier,
            unaccelerated: self.policy.unaccelerated,
            http: self.port.protocol == Protocol::Tcp && self.model.is_routed_to(self.name),
        }
    }

    fn locality(self, own: LocalityMode) -> LocalityMode {
        match own {
            // "Local" promises that no traffic leaves the node: a preference does not overrule it.
            LocalityMode::NodeOnly => LocalityMode::NodeOnly,
            other => self.policy.locality.unwrap_or(other),
        }
    }
}
