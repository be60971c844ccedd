//! NetworkPolicies.

use super::selector::{namespace_selector, selector};
use super::{Random, cidr, pool};
use crate::connection::Protocol;
use crate::evaluate::MODE;
use crate::object::{
    Cluster, EgressRule, IngressRule, IntOrString, IpBlock, Labels, Metadata, NetworkPolicy,
    NetworkPolicySpec, Peer, PolicyPort, PolicyType,
};

/// Adds one, or replaces the one of that name.
pub(super) fn add(random: &mut Random, cluster: &mut Cluster) {
    let metadata = metadata(random, Some(&pool::NAMESPACES));
    let policies = &mut cluster.network_policies;
    policies.retain(|p| {
        (&p.metadata.namespace, &p.metadata.name) != (&metadata.namespace, &metadata.name)
    });
    policies.push(NetworkPolicy {
        metadata,
        spec: spec(random),
    });
}

/// Of a policy, audited now and then.
pub(super) fn metadata(random: &mut Random, namespaces: Option<&[&str]>) -> Metadata {
    let mut annotations = Labels::new();
    if random.one_in(8) {
        let mode = random.pick(&["Audit", "Audit", "Enforce"]);
        annotations.insert(MODE.to_owned(), mode.to_owned());
    }
    Metadata {
        namespace: namespaces.map_or_else(String::new, |all| random.pick(all).to_owned()),
        name: random.pick(&pool::POLICIES).to_owned(),
        annotations,
        ..Metadata::default()
    }
}

fn spec(random: &mut Random) -> NetworkPolicySpec {
    use PolicyType::{Egress, Ingress};
    NetworkPolicySpec {
        pod_selector: random.unless_one_in(8, selector),
        policy_types: random.pick(&[
            None,
            None,
            Some(vec![]),
            Some(vec![Ingress]),
            Some(vec![Egress]),
            Some(vec![Ingress, Egress]),
        ]),
        ingress: random.unless_one_in(3, |r| {
            r.many(0..=3, |r| IngressRule {
                from: peers(r),
                ports: ports(r),
            })
        }),
        egress: random.unless_one_in(3, |r| {
            r.many(0..=3, |r| EgressRule {
                to: peers(r),
                ports: ports(r),
            })
        }),
    }
}

fn peers(random: &mut Random) -> Option<Vec<Peer>> {
    random.unless_one_in(4, |r| r.many(0..=3, peer))
}

fn peer(random: &mut Random) -> Peer {
    match random.number(0..=4) {
        0 => Peer {
            pod_selector: Some(selector(random)),
            ..Peer::default()
        },
        1 => Peer {
            namespace_selector: Some(namespace_selector(random)),
            ..Peer::default()
        },
        2 => Peer {
            pod_selector: Some(selector(random)),
            namespace_selector: Some(namespace_selector(random)),
            ..Peer::default()
        },
        _ => {
            let (cidr, except) = cidr::cidr_with_except(random);
            Peer {
                ip_block: Some(IpBlock { cidr, except }),
                ..Peer::default()
            }
        }
    }
}

fn ports(random: &mut Random) -> Option<Vec<PolicyPort>> {
    random.unless_one_in(3, |r| r.many(0..=3, port))
}

fn port(random: &mut Random) -> PolicyPort {
    let protocol = random.pick(&[
        None,
        Some(Protocol::Tcp),
        Some(Protocol::Udp),
        Some(Protocol::Sctp),
    ]);
    let number = random.pick(&pool::PORTS);
    let (port, end_port) = match random.number(0..=5) {
        0 => (None, None),
        1 | 2 => (Some(IntOrString::Int(number)), None),
        3 => {
            let end = random.number(number.into()..=u16::MAX.into()) as u16;
            let end = random.pick(&[end, number, number.saturating_add(1), u16::MAX]);
            (Some(IntOrString::Int(number)), Some(end))
        }
        _ => {
            let name = random.pick(&pool::PORT_NAMES).to_owned();
            (Some(IntOrString::String(name)), None)
        }
    };
    PolicyPort {
        protocol,
        port,
        end_port,
    }
}
