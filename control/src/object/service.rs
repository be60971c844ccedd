//! Services.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use weft_proto::model::policy::Cidr;
use weft_proto::model::{LocalityMode, Protocol};

/// A port of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// Empty when it has none.
    pub name: String,
    /// Transport protocol.
    pub protocol: Protocol,
    /// 1 to 65535.
    pub port: u16,
}

/// Where a service port leads in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPort {
    /// The same number in every pod.
    Number(u16),
    /// The container port of this name, whatever its number is in each pod.
    Name(String),
}

/// One port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Empty when the service has only one, unnamed port.
    pub name: String,
    /// Transport protocol.
    pub protocol: Protocol,
    /// 1 to 65535.
    pub port: u16,
    /// Where it leads.
    pub target: TargetPort,
    /// The same at the addresses of all nodes, for services that have node ports.
    pub node_port: Option<u16>,
}

/// How clients outside the cluster reach a service, besides node ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// `externalIPs` that are nothing else.
    pub external_ips: Vec<IpAddr>,
    /// Where load balancers send their packets on as they are.
    pub balancer_ips: Vec<IpAddr>,
    /// The clients that get in at `balancer_ips`. Empty: all.
    pub source_ranges: Vec<Cidr>,
    /// From `externalTrafficPolicy` and `trafficDistribution`.
    pub locality: LocalityMode,
    /// Where load balancers ask each node for a backend of its own.
    pub health_check_port: Option<u16>,
}

/// A service with virtual addresses, or one without, which Weft leaves alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// `clusterIPs`, `externalIPs` and load balancer addresses, each once. Empty for headless and ExternalName services.
    pub addresses: Vec<IpAddr>,
    /// What is for clients outside the cluster.
    pub outside: Outside,
    /// Labels of its pods; empty when its endpoints come from elsewhere.
    pub selector: BTreeMap<String, String>,
    /// No (port, protocol) appears twice.
    pub ports: Vec<ServicePort>,
    /// `sessionAffinity: ClientIP` and its timeout.
    pub affinity: Option<Duration>,
    /// From `internalTrafficPolicy` and `trafficDistribution`.
    pub locality: LocalityMode,
    /// Pods count as healthy whether they are ready or not.
    pub publish_not_ready: bool,
}

impl Service {
    /// Whether clients of an address family can reach it, so that endpoints of that family are of use.
    #[must_use]
    pub fn has_family_of(&self, address: IpAddr) -> bool {
        self.addresses
            .iter()
            .any(|vip| vip.is_ipv4() == address.is_ipv4())
    }
}
