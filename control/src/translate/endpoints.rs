//! A service's endpoints: from its EndpointSlices, or from the pods that its selector picks when it has none.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weft_proto::model::{ClusterEndpoints, Endpoint, Health, Locality};

use super::{balanced_ports, resource_name};
use crate::model::Model;
use crate::object::{EndpointSlice, ObjectName, Pod, Service, ServicePort, SliceEndpoint};

/// Endpoints in the order of their addresses, each once.
type Found = BTreeMap<SocketAddr, Endpoint>;

/// The endpoints of every port of the service; none when it does not exist or has no address of its own.
#[must_use]
pub fn service_endpoints(model: &Model, name: &ObjectName) -> Vec<ClusterEndpoints> {
    let Some(entry) = model.service(name) else {
        return Vec::new();
    };
    balanced_ports(&entry.spec)
        .iter()
        .map(|port| {
            let mut found = Found::new();
            match model.slices(name) {
                Some(slices) => {
                    slices.for_each(|slice| add_slice(model, slice, &entry.spec, port, &mut found));
                }
                None => add_pods(model, name, &entry.spec, port, &mut found),
            }
            ClusterEndpoints {
                name: resource_name(name, port.port, port.protocol),
                endpoints: found.into_values().collect(),
            }
        })
        .collect()
}

fn add_slice(
    model: &Model,
    slice: &EndpointSlice,
    service: &Service,
    port: &ServicePort,
    found: &mut Found,
) {
    let numbers = slice
        .ports
        .iter()
        .filter(|p| p.name == port.name && p.protocol == port.protocol);
    for number in numbers {
        for endpoint in &slice.endpoints {
            if !service.has_family_of(endpoint.address) {
                continue;
            }
            let pod = model.pods().of_endpoint(endpoint);
            add(
                found,
                Endpoint {
                    address: SocketAddr::new(endpoint.address, number.port),
                    weight: pod.map_or(1, |p| p.weight),
                    priority: 0,
                    health: endpoint.health,
                    locality: locality(model, endpoint, pod),
                },
            );
        }
    }
}

/// What the slice says; then what its pod says; the zone also from the node.
fn locality(model: &Model, endpoint: &SliceEndpoint, pod: Option<&Pod>) -> Locality {
    let node = if endpoint.node.is_empty() {
        pod.map_or("", |p| &p.node)
    } else {
        &endpoint.node
    };
    let zone = if endpoint.zone.is_empty() {
        model.zone(node)
    } else {
        &endpoint.zone
    };
    Locality {
        zone: zone.to_owned(),
        node: node.to_owned(),
    }
}

fn add_pods(
    model: &Model,
    name: &ObjectName,
    service: &Service,
    port: &ServicePort,
    found: &mut Found,
) {
    let pods = model
        .selected_pods(name, &service.selector)
        .filter(|(_, pod)| !pod.finished);
    for (_, pod) in pods {
        // A pod without a port of that name is none of the service's.
        let Some(number) = pod.port(&port.target, port.protocol) else {
            continue;
        };
        let health = pod.health(service.publish_not_ready);
        for address in pod.addresses.iter().filter(|a| service.has_family_of(**a)) {
            add(
                found,
                Endpoint {
                    address: SocketAddr::new(*address, number),
                    weight: pod.weight,
                    priority: 0,
                    health,
                    locality: Locality {
                        zone: model.zone(&pod.node).to_owned(),
                        node: pod.node.clone(),
                    },
                },
            );
        }
    }
}

/// While an endpoint moves from slice to slice it is in both: the better word counts.
fn add(found: &mut Found, endpoint: Endpoint) {
    let better = |known: &Endpoint| rank(endpoint.health) < rank(known.health);
    if found.get(&endpoint.address).is_none_or(better) {
        found.insert(endpoint.address, endpoint);
    }
}

const fn rank(health: Health) -> u8 {
    match health {
        Health::Healthy => 0,
        Health::Draining => 1,
        Health::Unhealthy => 2,
    }
}
