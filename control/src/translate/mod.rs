//! Model to resources, as pure functions.

mod conflicts;
mod endpoints;
pub(crate) mod envoy;
#[cfg(test)]
mod golden;
mod mtls;
mod policy;
mod proxyless;
mod routes;
mod service;
mod tunnels;
#[cfg(test)]
mod validate;
#[cfg(test)]
pub(crate) use validate::validate;
mod workload;

use weft_proto::model::{
    ApiListener, Cluster, ClusterEndpoints, Listener, Problem, Protocol, RouteTable,
};

pub use endpoints::service_endpoints;
pub use mtls::problems as mtls_problems;
pub use policy::access;
pub use service::service;
pub use tunnels::tunnels;
pub(crate) use workload::{TUNNEL, node_resource_name, pod_resource_name};
pub use workload::{node, pod};

use crate::object::{ObjectName, Service, ServicePort};

/// All that follows from one service and what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceResources {
    /// For each port one for clients inside, one more at the nodes, and those for clients outside.
    pub listeners: Vec<Listener>,
    /// One per port, and another where clients outside have other backends.
    pub clusters: Vec<Cluster>,
    /// One per port.
    pub endpoints: Vec<ClusterEndpoints>,
    /// One per port that has routes.
    pub routes: Vec<RouteTable>,
    /// What gRPC clients dial.
    pub client_listeners: Vec<ApiListener>,
    /// One per TCP port, for them.
    pub client_routes: Vec<RouteTable>,
    /// What stands between it and other objects.
    pub problems: Vec<Problem>,
}

/// Name of a service port's listener, cluster and endpoints: `shop/cart:80/tcp`.
#[must_use]
pub fn resource_name(service: &ObjectName, port: u16, protocol: Protocol) -> String {
    format!("{service}:{port}/{protocol}")
}

/// The ports that get resources: none for a service without an address, which its clients find by DNS.
fn balanced_ports(service: &Service) -> &[ServicePort] {
    if service.addresses.is_empty() {
        &[]
    } else {
        &service.ports
    }
}
