//! A service's listeners and clusters.

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
    ServiceResources {
        listeners: ports
            .iter()
            .filter_map(|port| listener(model, name, service, port, &policy))
            .map(|listener| at_layer(listener, &routes))
            .chain(
                ports
                    .iter()
                    .filter_map(|port| node_listener(model, name, service, port, &policy))
                    .filter(|listener| !routes.iter().any(|r| r.name == listener.cluster)),
            )
            .collect(),
        clusters: ports
            .iter()
            .map(|port| cluster(model, name, service, port, &policy))
            .collect(),
        endpoints: service_endpoints(model, name),
        routes,
        client_listeners,
        client_routes,
        problems,
    }
}

/// A port that has routes goes through Envoy.
fn at_layer(mut listener: Listener, routes: &[RouteTable]) -> Listener {
    if routes.iter().any(|table| table.name == listener.name) {
        listener.layer = Layer::Seven;
    }
    listener
}

/// The node port, at the addresses of all nodes. Where there are routes it is left out: nobody hands connections to a node's address
/// over to Envoy.
fn node_listener(
    model: &Model,
    name: &ObjectName,
    service: &Service,
    port: &ServicePort,
    policy: &TrafficPolicy,
) -> Option<Listener> {
    let number = port.node_port?;
    let claim = NodePort {
        port: number,
        protocol: port.protocol,
    };
    let winner = model.node_port(claim)?;
    let mut addresses: Vec<IpAddr> = model
        .node_addresses()
        .filter(|address| service.has_family_of(*address))
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    let cluster = resource_name(name, port.port, port.protocol);
    (winner.service == *name && !addresses.is_empty()).then(|| Listener {
        name: format!("{cluster}{AT_NODES}"),
        cluster,
        addresses,
        port: number,
        ..settings(name, port, policy)
    })
}

/// `None` when other services have all its addresses.
fn listener(
    model: &Model,
    name: &ObjectName,
    service: &Service,
    port: &ServicePort,
    policy: &TrafficPolicy,
) -> Option<Listener> {
    let resource = resource_name(name, port.port, port.protocol);
    let addresses: Vec<IpAddr> = service
        .addresses
        .iter()
        .copied()
        .filter(|address| owns(model, name, *address, port))
        .collect();
    (!addresses.is_empty()).then(|| Listener {
        cluster: resource.clone(),
        name: resource,
        addresses,
        port: port.port,
        ..settings(name, port, policy)
    })
}

/// What all listeners of a port have in common.
fn settings(name: &ObjectName, port: &ServicePort, policy: &TrafficPolicy) -> Listener {
    Listener {
        name: String::new(),
        cluster: String::new(),
        service: Some(ServiceRef {
            namespace: name.namespace.to_string(),
            name: name.name.to_string(),
            port_name: port.name.clone(),
        }),
        addresses: Vec::new(),
        port: 0,
        protocol: port.protocol,
        layer: Layer::Four,
        side: Side::Inside,
        source_ranges: Vec::new(),
        health_check_port: None,
        idle_timeout: policy.idle_timeout,
        max_duration: policy.max_duration,
        connections_per_second: policy.connections_per_second,
    }
}

fn owns(model: &Model, name: &ObjectName, address: IpAddr, port: &ServicePort) -> bool {
    let claim = Claim {
        address,
        port: port.port,
        protocol: port.protocol,
    };
    model
        .claimants(&claim)
        .and_then(|all| all.first())
        .is_some_and(|winner| winner.service == *name)
}

fn cluster(
    model: &Model,
    name: &ObjectName,
    service: &Service,
    port: &ServicePort,
    policy: &TrafficPolicy,
) -> Cluster {
    let resource = resource_name(name, port.port, port.protocol);
    Cluster {
        endpoints: EndpointSource::Eds(resource.clone()),
        name: resource,
        policy: policy.policy.unwrap_or(LbPolicy::Random),
        affinity: policy.affinity.or(service.affinity),
        locality: match service.locality {
            // "Local" promises that no traffic leaves the node: a preference does not overrule it.
            LocalityMode::NodeOnly => LocalityMode::NodeOnly,
            other => policy.locality.unwrap_or(other),
        },
        connect_timeout: policy.connect_timeout,
        max_connections: policy.max_connections,
        outlier: policy.outlier,
        unaccelerated: policy.unaccelerated,
        http: port.protocol == Protocol::Tcp && model.is_routed_to(name),
    }
}
