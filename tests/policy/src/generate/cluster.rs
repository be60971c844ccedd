//! Namespaces, nodes, pods, and the policies among them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::selector::labels;
use super::{Random, authorization_policy, cluster_network_policy, network_policy, pool};
use crate::connection::Protocol;
use crate::object::{
    Cluster, Container, ContainerPort, Metadata, Namespace, Node, NodeAddress, NodeStatus, Pod,
    PodIp, PodSpec, PodStatus,
};

/// The node that judges.
pub const NODE: &str = "n1";
/// Pods of [`NODE`] with an interface of their own.
pub const MAX_LOCAL_PODS: usize = 6;

const NODES: u8 = 3;

/// A cluster with a few of everything.
#[must_use]
pub fn cluster(random: &mut Random) -> Cluster {
    let mut cluster = Cluster {
        namespaces: namespaces(random),
        nodes: (1..=NODES).map(|n| node(random, n)).collect(),
        ..Cluster::default()
    };
    for index in 0..random.number(3..=10) {
        let pod = pod(random, &cluster, index);
        cluster.pods.push(pod);
    }
    // From none, where all is let through, to so many that most pods reach nobody.
    for _ in 0..few(random) {
        network_policy::add(random, &mut cluster);
    }
    for _ in 0..few(random) {
        cluster_network_policy::add(random, &mut cluster);
    }
    for _ in 0..few(random) {
        authorization_policy::add(random, &mut cluster);
    }
    cluster
}

/// An address of a pod, of a node, next to one of them, or of nobody, in either family.
pub(super) fn any_address(random: &mut Random) -> IpAddr {
    let (subnet, host) = (random.number(1..=NODES.into()) as u8, host(random));
    match random.number(0..=5) {
        0 | 1 => v4(subnet, host),
        2 => v6(subnet, host),
        3 => node_v4(subnet),
        4 => node_v6(subnet),
        _ if random.one_in(2) => IpAddr::V4(Ipv4Addr::new(203, 0, 113, host)),
        _ => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into())),
    }
}

/// A pod that is new in the cluster.
pub(super) fn pod(random: &mut Random, cluster: &Cluster, index: usize) -> Pod {
    let locals = cluster.pods.iter().filter(|p| is_local(p)).count();
    let first = if locals < MAX_LOCAL_PODS { 1 } else { 2 };
    // Half of them are of this node, if there is room.
    let number = random.pick(&[first, first, 2, 3]);
    let host_network = random.one_in(10);
    let taken: BTreeSet<IpAddr> = cluster
        .pods
        .iter()
        .flat_map(|p| p.status.pod_ips.iter().map(|ip| ip.ip))
        .collect();
    let addresses = if host_network {
        cluster
            .nodes
            .iter()
            .filter(|n| n.metadata.name == format!("n{number}"))
            .flat_map(|n| n.status.addresses.iter().map(|a| a.address))
            .collect()
    } else {
        own_addresses(random, number, &taken)
    };
    Pod {
        metadata: Metadata {
            namespace: random.pick(&pool::NAMESPACES).to_owned(),
            name: format!("pod-{index}"),
            labels: labels(random),
            ..Metadata::default()
        },
        spec: PodSpec {
            node_name: format!("n{number}"),
            service_account_name: random.unless_one_in(3, |r| r.pick(&pool::ACCOUNTS).to_owned()),
            host_network,
            containers: containers(random),
        },
        status: PodStatus {
            phase: random.one_in(12).then(|| "Succeeded".to_owned()),
            pod_ips: addresses.into_iter().map(|ip| PodIp { ip }).collect(),
        },
    }
}

/// Whether it is judged by [`NODE`].
pub(super) fn is_local(pod: &Pod) -> bool {
    pod.spec.node_name == NODE && !pod.spec.host_network
}

fn few(random: &mut Random) -> usize {
    random.pick(&[0, 1, 2, 3, 4, 6, 9])
}

/// Not all of them: what has no Namespace object has only the label that all have.
fn namespaces(random: &mut Random) -> Vec<Namespace> {
    let mut namespaces = Vec::new();
    for name in pool::NAMESPACES {
        if random.one_in(8) {
            continue;
        }
        namespaces.push(Namespace {
            metadata: Metadata {
                name: name.to_owned(),
                labels: labels(random),
                ..Metadata::default()
            },
        });
    }
    namespaces
}

fn node(random: &mut Random, number: u8) -> Node {
    let mut addresses = vec![node_v4(number)];
    if !random.one_in(4) {
        addresses.push(node_v6(number));
    }
    let addresses = addresses.into_iter().map(|address| NodeAddress {
        kind: "InternalIP".to_owned(),
        address,
    });
    Node {
        metadata: Metadata {
            name: format!("n{number}"),
            labels: labels(random),
            ..Metadata::default()
        },
        status: NodeStatus {
            addresses: addresses.collect(),
        },
    }
}

/// One of a family, or both.
fn own_addresses(random: &mut Random, node: u8, taken: &BTreeSet<IpAddr>) -> Vec<IpAddr> {
    let mut free = |make: fn(u8, u8) -> IpAddr| {
        loop {
            let address = make(node, host(random));
            if !taken.contains(&address) {
                return address;
            }
        }
    };
    let both = [free(v4), free(v6)];
    match random.number(0..=3) {
        0 => vec![both[0]],
        1 => vec![both[1]],
        _ => both.to_vec(),
    }
}

/// Mostly where CIDRs begin and end.
fn host(random: &mut Random) -> u8 {
    match random.number(0..=2) {
        0 => random.number(1..=254) as u8,
        _ => random.pick(&[
            0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 254, 255,
        ]),
    }
}

const fn v4(node: u8, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 244, node, host))
}

fn v6(node: u8, host: u8) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(
        0xfd00,
        0x244,
        node.into(),
        0,
        0,
        0,
        0,
        host.into(),
    ))
}

const fn node_v4(node: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 168, 0, node))
}

fn node_v6(node: u8) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x192, 0, 0, 0, 0, 0, node.into()))
}

/// A name is given to one port of a protocol in a pod at most; two protocols may share it.
fn containers(random: &mut Random) -> Vec<Container> {
    let mut named = BTreeSet::new();
    let mut numbered = BTreeSet::new();
    let containers = random.number(1..=2);
    (0..containers)
        .map(|index| {
            let ports = random.many(0..=3, |r| {
                let protocol = r.pick(&[
                    None,
                    Some(Protocol::Tcp),
                    Some(Protocol::Udp),
                    Some(Protocol::Sctp),
                ]);
                let effective = protocol.unwrap_or(Protocol::Tcp);
                let name = r
                    .unless_one_in(4, |r| r.pick(&pool::PORT_NAMES).to_owned())
                    .filter(|name| named.insert((effective, name.clone())));
                ContainerPort {
                    name,
                    container_port: r.pick(&pool::PORTS),
                    protocol,
                }
            });
            Container {
                name: format!("c{index}"),
                ports: ports
                    .into_iter()
                    .filter(|p| {
                        numbered.insert((p.protocol.unwrap_or(Protocol::Tcp), p.container_port))
                    })
                    .collect(),
            }
        })
        .collect()
}
