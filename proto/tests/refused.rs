//! What the kernel cannot honour is refused, and the error names the field.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weft_proto::convert::{
    decode, decode_cluster, decode_endpoints, decode_listener, decode_workload, encode,
    encode_cluster, encode_endpoints, encode_listener, encode_workload,
};
use weft_proto::envoy::envoy::config::cluster::v3::Cluster as PbCluster;
use weft_proto::envoy::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, LbPolicy as PbPolicy,
};
use weft_proto::envoy::envoy::config::core::v3::address::Address as PbKind;
use weft_proto::envoy::envoy::config::core::v3::socket_address::PortSpecifier;
use weft_proto::envoy::envoy::config::core::v3::{Address, SocketAddress};
use weft_proto::envoy::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use weft_proto::envoy::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint};
use weft_proto::envoy::envoy::config::listener::v3::{
    AdditionalAddress, FilterChainMatch, Listener as PbListener,
};
use weft_proto::envoy::google::protobuf::{Duration as PbDuration, UInt32Value};
use weft_proto::model::{
    Cluster, ClusterEndpoints, Endpoint, EndpointSource, Health, Layer, LbPolicy, Listener,
    Locality, LocalityMode, Protocol, Resource, Workload, WorkloadKind,
};
use weft_proto::resource::ResourceType;

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));

fn listener(protocol: Protocol) -> PbListener {
    encode_listener(&Listener {
        name: "l".to_owned(),
        service: None,
        addresses: vec![VIP],
        port: 80,
        protocol,
        cluster: "c".to_owned(),
        layer: Layer::Four,
        side: weft_proto::model::Side::Inside,
        source_ranges: Vec::new(),
        health_check_port: None,
        idle_timeout: None,
        max_duration: None,
        connections_per_second: None,
    })
}

fn cluster() -> PbCluster {
    encode_cluster(&Cluster {
        name: "c".to_owned(),
        endpoints: EndpointSource::Eds("c".to_owned()),
        policy: LbPolicy::Random,
        affinity: None,
        locality: LocalityMode::None,
        connect_timeout: None,
        max_connections: None,
        outlier: None,
        unaccelerated: false,
        http: false,
    })
}

fn endpoints() -> ClusterLoadAssignment {
    encode_endpoints(&ClusterEndpoints {
        name: "c".to_owned(),
        endpoints: vec![Endpoint {
            address: SocketAddr::new(VIP, 80),
            weight: 1,
            priority: 0,
            health: Health::Healthy,
            locality: Locality::default(),
        }],
    })
}

fn address(text: &str, port: u32) -> Option<Address> {
    Some(Address {
        address: Some(PbKind::SocketAddress(SocketAddress {
            address: text.to_owned(),
            port_specifier: Some(PortSpecifier::PortValue(port)),
            ..SocketAddress::default()
        })),
    })
}

fn refused_listener(change: impl FnOnce(&mut PbListener), field: &str) {
    let mut pb = listener(Protocol::Tcp);
    change(&mut pb);
    assert_eq!(decode_listener(&pb).unwrap_err().field, field);
}

#[test]
fn listeners() {
    refused_listener(|l| l.name.clear(), "name");
    refused_listener(|l| l.address = None, "address.address");
    refused_listener(
        |l| l.address = address("example.com", 80),
        "address.socket_address.address",
    );
    for port in [0, 65_536, u32::MAX] {
        refused_listener(
            |l| l.address = address("10.96.0.1", port),
            "address.socket_address.port_value",
        );
    }
    let other_port = AdditionalAddress {
        address: address("10.96.0.2", 81),
        ..AdditionalAddress::default()
    };
    refused_listener(
        |l| l.additional_addresses.push(other_port),
        "additional_addresses[0].address",
    );
    refused_listener(|l| l.filter_chains.clear(), "filter_chains");
    refused_listener(
        |l| l.filter_chains.push(l.filter_chains[0].clone()),
        "filter_chains",
    );
    refused_listener(
        |l| {
            l.filter_chains[0].filter_chain_match = Some(FilterChainMatch {
                server_names: vec!["example.com".to_owned()],
                ..FilterChainMatch::default()
            });
        },
        "filter_chains[0].filter_chain_match",
    );
    refused_listener(
        |l| l.filter_chains[0].filters.clear(),
        "filter_chains[0].filters",
    );
    let mut udp = listener(Protocol::Udp);
    udp.listener_filters.clear();
    assert_eq!(decode_listener(&udp).unwrap_err().field, "listener_filters");
}

fn refused_cluster(change: impl FnOnce(&mut PbCluster), field: &str) {
    let mut pb = cluster();
    change(&mut pb);
    assert_eq!(decode_cluster(&pb).unwrap_err().field, field);
}

#[test]
fn clusters() {
    refused_cluster(|c| c.name.clear(), "name");
    refused_cluster(
        |c| {
            c.cluster_discovery_type =
                Some(ClusterDiscoveryType::Type(DiscoveryType::StrictDns as i32));
        },
        "type",
    );
    refused_cluster(
        |c| {
            c.load_balancing_policy = None;
            c.lb_policy = PbPolicy::ClusterProvided as i32;
        },
        "lb_policy",
    );
    let negative = PbDuration {
        seconds: -1,
        nanos: 0,
    };
    refused_cluster(|c| c.connect_timeout = Some(negative), "connect_timeout");
}

fn refused_endpoints(change: impl FnOnce(&mut LbEndpoint), field: &str) {
    let mut pb = endpoints();
    change(&mut pb.endpoints[0].lb_endpoints[0]);
    let error = decode_endpoints(&pb).unwrap_err();
    assert_eq!(error.field, format!("endpoints[0].lb_endpoints[0].{field}"));
}

#[test]
fn endpoint_lists() {
    refused_endpoints(|e| e.host_identifier = None, "endpoint");
    refused_endpoints(
        |e| e.load_balancing_weight = Some(UInt32Value { value: 0 }),
        "load_balancing_weight",
    );
    for (bad, field) in [
        (address("no address", 80), "socket_address.address"),
        (address("10.0.0.01", 80), "socket_address.address"),
        (address("10.0.0.1", 0), "socket_address.port_value"),
    ] {
        refused_endpoints(
            |e| {
                if let Some(HostIdentifier::Endpoint(endpoint)) = &mut e.host_identifier {
                    endpoint.address = bad;
                }
            },
            &format!("endpoint.address.{field}"),
        );
    }
    let mut pb = endpoints();
    pb.endpoints[0].priority = 128;
    let error = decode_endpoints(&pb).unwrap_err();
    assert_eq!(error.field, "endpoints[0].priority");
    pb.cluster_name.clear();
    assert_eq!(decode_endpoints(&pb).unwrap_err().field, "cluster_name");
}

#[test]
fn workloads() {
    let mut pb = encode_workload(&Workload {
        name: "pod/a/b".to_owned(),
        kind: WorkloadKind::Pod,
        addresses: vec![VIP],
        node: String::new(),
        zone: String::new(),
        namespace: String::new(),
        service_account: String::new(),
        labels: [].into(),
        spiffe_id: String::new(),
        host_network: false,
        unaccelerated: false,
        out_of_mesh: false,
        mtls: Default::default(),
        ports: Vec::new(),
    });
    pb.addresses.push(vec![1, 2, 3]);
    assert_eq!(decode_workload(&pb).unwrap_err().field, "addresses[1]");
    pb.addresses.pop();
    pb.port_mtls.insert(0, 0);
    assert_eq!(decode_workload(&pb).unwrap_err().field, "port_mtls[0]");
    pb.port_mtls = [(80, 9)].into();
    assert_eq!(decode_workload(&pb).unwrap_err().field, "port_mtls[80]");
    pb.port_mtls.clear();
    pb.mtls = 9;
    assert_eq!(decode_workload(&pb).unwrap_err().field, "mtls");
    pb.mtls = 0;
    pb.kind = 77;
    assert_eq!(decode_workload(&pb).unwrap_err().field, "kind");
    pb.name.clear();
    assert_eq!(decode_workload(&pb).unwrap_err().field, "name");
}

#[test]
fn another_type_than_expected() {
    let any = encode(&Resource::Endpoints(ClusterEndpoints {
        name: "c".to_owned(),
        endpoints: Vec::new(),
    }));
    let error = decode(ResourceType::Cluster, &any).unwrap_err();
    assert_eq!(error.field, "type_url");
}
