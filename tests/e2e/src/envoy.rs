//! Resources as any control plane for Envoys would write them by hand: nothing of Weft's own is in them.

use std::net::IpAddr;

use prost::{Message, Name};
use weft_proto::envoy::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, EdsClusterConfig, LbPolicy,
};
use weft_proto::envoy::envoy::config::cluster::v3::{CircuitBreakers, Cluster};
use weft_proto::envoy::envoy::config::core::v3::address::Address as AddressKind;
use weft_proto::envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use weft_proto::envoy::envoy::config::core::v3::socket_address::PortSpecifier;
use weft_proto::envoy::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ConfigSource, SocketAddress,
};
use weft_proto::envoy::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use weft_proto::envoy::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use weft_proto::envoy::envoy::config::listener::v3::filter::ConfigType;
use weft_proto::envoy::envoy::config::listener::v3::{Filter, FilterChain, Listener};
use weft_proto::envoy::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use weft_proto::envoy::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use weft_proto::envoy::google::protobuf::Any;

use crate::mesh::{PORT, TARGET};

/// Packs a message.
pub fn any<T: Message + Name>(message: &T) -> Any {
    Any {
        type_url: T::type_url(),
        value: message.encode_to_vec(),
    }
}

fn address(ip: IpAddr, port: u16) -> Address {
    Address {
        address: Some(AddressKind::SocketAddress(SocketAddress {
            address: ip.to_string(),
            port_specifier: Some(PortSpecifier::PortValue(port.into())),
            ..Default::default()
        })),
    }
}

/// An EDS cluster, with fields that only Envoy needs, as servers send them.
#[must_use]
pub fn cluster(name: &str) -> Cluster {
    Cluster {
        name: name.to_owned(),
        alt_stat_name: "for Envoy".to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
        lb_policy: LbPolicy::Random as i32,
        circuit_breakers: Some(CircuitBreakers::default()),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(ConfigSource {
                resource_api_version: 2,
                config_source_specifier: Some(ConfigSourceSpecifier::Ads(
                    AggregatedConfigSource {},
                )),
                ..Default::default()
            }),
            service_name: String::new(),
        }),
        ..Default::default()
    }
}

/// Its endpoints, on [`TARGET`].
#[must_use]
pub fn assignment(name: &str, ips: &[IpAddr]) -> ClusterLoadAssignment {
    let endpoint = |ip: &IpAddr| LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(address(*ip, TARGET)),
            hostname: "for-envoy.example".to_owned(),
            ..Default::default()
        })),
        ..Default::default()
    };
    ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: ips.iter().map(endpoint).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A TCP listener at `ip` and [`PORT`] for the cluster of its name.
#[must_use]
pub fn listener(name: &str, ip: IpAddr) -> Listener {
    let proxy = TcpProxy {
        stat_prefix: name.to_owned(),
        cluster_specifier: Some(ClusterSpecifier::Cluster(name.to_owned())),
        ..Default::default()
    };
    Listener {
        name: name.to_owned(),
        address: Some(address(ip, PORT)),
        filter_chains: vec![FilterChain {
            filters: vec![Filter {
                name: "envoy.filters.network.tcp_proxy".to_owned(),
                config_type: Some(ConfigType::TypedConfig(any(&proxy))),
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}
