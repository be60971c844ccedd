//! What is encoded is decoded to the same.
#![allow(clippy::panic, clippy::unwrap_used)]

mod policies;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use weft_proto::convert::{decode, encode};
use weft_proto::model::policy::{Cidr, IpProtocol};
use weft_proto::model::{
    Cluster, ClusterEndpoints, Endpoint, EndpointSource, Health, Layer, LbPolicy, Listener,
    Locality, LocalityMode, Mtls, MtlsMode, NamedPort, Outlier, Problem, Protocol, Resource,
    ServiceRef, Severity, Side, Workload, WorkloadKind,
};

fn name() -> impl Strategy<Value = String> {
    "[a-z]{1,8}/[a-z0-9-]{1,12}:[0-9]{1,5}/(tcp|udp)"
}

fn ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|n| IpAddr::V4(Ipv4Addr::from_bits(n))),
        any::<u128>().prop_map(|n| IpAddr::V6(Ipv6Addr::from_bits(n)).to_canonical()),
    ]
}

fn duration() -> impl Strategy<Value = Duration> {
    (0u64..1 << 33, 0u32..1_000_000_000)
        .prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
        .prop_filter("0 means off", |d| !d.is_zero())
}

fn distinct<T: PartialEq>(list: Vec<T>) -> Vec<T> {
    let mut kept = Vec::new();
    for item in list {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let health = prop_oneof![
        Just(Health::Healthy),
        Just(Health::Draining),
        Just(Health::Unhealthy)
    ];
    (
        ip(),
        1u16..,
        1u32..,
        0u32..128,
        health,
        "[a-z]{0,3}",
        "[a-z]{0,3}",
    )
        .prop_map(
            |(ip, port, weight, priority, health, zone, node)| Endpoint {
                address: SocketAddr::new(ip, port),
                weight,
                priority,
                health,
                locality: Locality { zone, node },
            },
        )
}

/// Distinct addresses, in the order in which the wire has them.
fn endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
    vec(endpoint(), 0..20).prop_map(|list| {
        let by_address: BTreeMap<_, _> = list.into_iter().map(|e| (e.address, e)).collect();
        let mut list: Vec<_> = by_address.into_values().collect();
        list.sort_by_key(|e| (e.priority, e.locality.clone(), e.address));
        list
    })
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let policy = prop_oneof![
        Just(LbPolicy::Random),
        Just(LbPolicy::RoundRobin),
        Just(LbPolicy::LeastRequest),
        Just(LbPolicy::Maglev)
    ];
    let locality = prop_oneof![
        Just(LocalityMode::None),
        Just(LocalityMode::PreferNode),
        Just(LocalityMode::PreferZone),
        Just(LocalityMode::NodeOnly)
    ];
    let source = prop_oneof![
        name().prop_map(EndpointSource::Eds),
        endpoints().prop_map(EndpointSource::Static)
    ];
    let affinity = option::of((1u64..=86_400).prop_map(Duration::from_secs));
    (
        name(),
        source,
        policy,
        affinity,
        locality,
        option::of(duration()),
        option::of(1u32..u32::MAX),
        option::of(outlier()),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(
                name,
                endpoints,
                policy,
                affinity,
                locality,
                connect_timeout,
                max_connections,
                outlier,
                unaccelerated,
                http,
            )| Cluster {
                name,
                endpoints,
                policy,
                affinity,
                locality,
                connect_timeout,
                max_connections,
                outlier,
                unaccelerated,
                http,
            },
        )
}

fn outlier() -> impl Strategy<Value = Outlier> {
    (1u32.., duration(), 0u32..=100).prop_map(
        |(consecutive_failures, base_ejection, max_ejected_percent)| Outlier {
            consecutive_failures,
            base_ejection,
            max_ejected_percent,
        },
    )
}

/// What is said of listeners for outside alone.
type Outside = (Side, Vec<Cidr>, Option<u16>);

fn side() -> impl Strategy<Value = Outside> {
    prop_oneof![
        Just((Side::Inside, Vec::new(), None)),
        (vec(policies::cidr(), 0..4), option::of(1u16..)).prop_map(|(ranges, port)| (
            Side::Outside,
            ranges,
            port
        )),
    ]
}

fn listener() -> impl Strategy<Value = Listener> {
    let service = option::of(("[a-z]{1,5}", "[a-z]{1,5}", "[a-z]{0,5}")).prop_map(|s| {
        s.map(|(namespace, name, port_name)| ServiceRef {
            namespace,
            name,
            port_name,
        })
    });
    let times = (option::of(duration()), option::of(duration()));
    (
        name(),
        service,
        vec(ip(), 1..5),
        1u16..,
        any::<bool>(),
        name(),
        times,
        option::of(1u32..),
        side(),
    )
        .prop_map(
            |(name, service, addresses, port, tcp, cluster, times, rate, outside)| {
                let (idle_timeout, longest) = times;
                let (side, source_ranges, health_check_port) = outside;
                Listener {
                    name,
                    service,
                    addresses: distinct(addresses),
                    port,
                    protocol: if tcp { Protocol::Tcp } else { Protocol::Udp },
                    cluster,
                    layer: Layer::Four,
                    side,
                    source_ranges,
                    health_check_port,
                    idle_timeout,
                    // Envoy's udp_proxy has no such limit; ours is in milliseconds.
                    max_duration: longest.map(|d| {
                        if tcp {
                            d
                        } else {
                            Duration::from_millis(d.as_secs() * 1000 + 1)
                        }
                    }),
                    connections_per_second: rate,
                }
            },
        )
}

fn named_port() -> impl Strategy<Value = NamedPort> {
    let protocol = prop_oneof![
        Just(IpProtocol::Tcp),
        Just(IpProtocol::Udp),
        Just(IpProtocol::Sctp)
    ];
    ("[a-z]{1,5}", 1u16.., protocol).prop_map(|(name, port, protocol)| NamedPort {
        name,
        port,
        protocol,
    })
}

fn mtls() -> impl Strategy<Value = Mtls> {
    let mode = || {
        prop_oneof![
            Just(MtlsMode::Permissive),
            Just(MtlsMode::Strict),
            Just(MtlsMode::Disable)
        ]
    };
    (mode(), btree_map(1u16.., mode(), 0..3), any::<bool>()).prop_map(|(mode, ports, tunnel)| {
        Mtls {
            mode,
            ports,
            tunnel,
        }
    })
}

fn workload() -> impl Strategy<Value = Workload> {
    let texts = [".*", "[a-z]*", "[a-z]*", "[a-z]*", ".*"];
    let labels = btree_map(".{0,8}", ".{0,8}", 0..5);
    (
        ".+",
        any::<bool>(),
        vec(ip(), 0..4),
        texts,
        labels,
        any::<bool>(),
        vec(named_port(), 0..3),
        mtls(),
    )
        .prop_map(
            |(name, pod, addresses, texts, labels, host_network, ports, mtls)| {
                let [node, zone, namespace, service_account, spiffe_id] = texts;
                Workload {
                    name,
                    kind: if pod {
                        WorkloadKind::Pod
                    } else {
                        WorkloadKind::Node
                    },
                    addresses,
                    node,
                    zone,
                    namespace,
                    service_account,
                    labels,
                    spiffe_id,
                    host_network,
                    ports,
                    unaccelerated: host_network,
                    out_of_mesh: !host_network,
                    mtls,
                }
            },
        )
}

fn problem() -> impl Strategy<Value = Problem> {
    (".*", ".*", ".*", ".+", any::<bool>()).prop_map(|(origin, object, field, message, error)| {
        Problem {
            origin,
            object,
            field,
            message,
            severity: if error {
                Severity::Error
            } else {
                Severity::Warning
            },
        }
    })
}

fn resource() -> impl Strategy<Value = Resource> {
    prop_oneof![
        cluster().prop_map(Resource::Cluster),
        (name(), endpoints()).prop_map(|(name, endpoints)| Resource::Endpoints(ClusterEndpoints {
            name,
            endpoints
        })),
        listener().prop_map(Resource::Listener),
        workload().prop_map(Resource::Workload),
        policies::policy().prop_map(Resource::Policy),
        problem().prop_map(Resource::Problem),
    ]
}

proptest! {
    #[test]
    fn decoding_gives_back_what_was_encoded(resource in resource()) {
        let any = encode(&resource);
        prop_assert_eq!(&any.type_url, resource.resource_type().type_url());
        let back = decode(resource.resource_type(), &any).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(back, resource);
    }

    #[test]
    fn any_bytes_are_taken_or_refused_but_never_fatal(resource in resource(), flips in vec((any::<usize>(), any::<u8>()), 1..8)) {
        let mut any = encode(&resource);
        let len = any.value.len().max(1);
        for (at, byte) in flips {
            if let Some(b) = any.value.get_mut(at % len) {
                *b = byte;
            }
        }
        // Whatever comes out, nothing panics, and what is refused says why.
        if let Err(error) = decode(resource.resource_type(), &any) {
            prop_assert!(!error.reason.is_empty());
        }
    }
}
