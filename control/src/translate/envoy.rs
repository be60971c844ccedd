//! What a node's Envoy takes in place of a resource: one for each address family. It asks a backend in the name, and that is from the
//! address, of the client: an IPv4 client has IPv4 backends.

use std::net::IpAddr;

use weft_proto::model::route::{Forward, RouteAction};
use weft_proto::model::{EndpointSource, Resource};

/// Address families, as they stand in names.
const FAMILIES: [char; 2] = ['4', '6'];

/// Names of a resource for each family.
pub(crate) fn names(name: &str) -> [String; 2] {
    FAMILIES.map(|family| in_family(name, family))
}

fn in_family(name: &str, family: char) -> String {
    format!("{name}#{family}")
}

fn is_of(address: IpAddr, family: char) -> bool {
    address.is_ipv4() == (family == '4')
}

/// The resource for each family; `None` where it has nothing there, or is none of Envoy's.
pub(crate) fn split(resource: &Resource) -> [Option<Resource>; 2] {
    FAMILIES.map(|family| one(resource.clone(), family))
}

fn one(resource: Resource, family: char) -> Option<Resource> {
    Some(match resource {
        Resource::Listener(mut listener) => {
            listener.name = in_family(&listener.name, family);
            listener.addresses.retain(|a| is_of(*a, family));
            if listener.addresses.is_empty() {
                return None;
            }
            Resource::Listener(listener)
        }
        Resource::Cluster(mut cluster) => {
            cluster.name = in_family(&cluster.name, family);
            if let EndpointSource::Eds(name) = &mut cluster.endpoints {
                *name = in_family(name, family);
            }
            Resource::Cluster(cluster)
        }
        Resource::Endpoints(mut endpoints) => {
            endpoints.name = in_family(&endpoints.name, family);
            endpoints
                .endpoints
                .retain(|e| is_of(e.address.ip(), family));
            Resource::Endpoints(endpoints)
        }
        Resource::Routes(mut table) => {
            table.name = in_family(&table.name, family);
            for route in &mut table.routes {
                if let RouteAction::Forward(forward) = &mut route.action {
                    targets_in(forward, family);
                }
            }
            Resource::Routes(table)
        }
        Resource::ApiListener(_)
        | Resource::ClientRoutes(_)
        | Resource::Inbound(_)
        | Resource::Guard(_)
        | Resource::Policy(_)
        | Resource::Workload(_)
        | Resource::Problem(_)
        | Resource::TunnelCluster(_)
        | Resource::TunnelListener(_) => return None,
    })
}

fn targets_in(forward: &mut Forward, family: char) {
    for target in &mut forward.targets {
        target.cluster = target.cluster.as_ref().map(|name| in_family(name, family));
    }
    for mirror in &mut forward.mirrors {
        mirror.cluster = in_family(&mirror.cluster, family);
    }
}
