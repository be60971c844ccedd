//! ClusterNetworkPolicies.

use super::network_policy::metadata;
use super::selector::{namespace_selector, selector};
use super::{Random, cidr, pool};
use crate::evaluate::Side;
use crate::object::{
    Cluster, ClusterAction, ClusterNetworkPolicy, ClusterNetworkPolicySpec, ClusterPeer,
    ClusterPort, ClusterProtocol, ClusterRule, ClusterTier, NamespacedPod, PortMatch, PortRange,
    Subject,
};

/// Adds one, or replaces the one of that name.
pub(super) fn add(random: &mut Random, cluster: &mut Cluster) {
    let policy = ClusterNetworkPolicy {
        metadata: metadata(random, None),
        spec: spec(random),
    };
    let policies = &mut cluster.cluster_network_policies;
    policies.retain(|p| p.metadata.name != policy.metadata.name);
    policies.push(policy);
}

fn spec(random: &mut Random) -> ClusterNetworkPolicySpec {
    ClusterNetworkPolicySpec {
        tier: random.pick(&[ClusterTier::Admin, ClusterTier::Baseline]),
        priority: random.pick(&[0, 1, 1, 2, 10, 1000]),
        subject: if random.one_in(2) {
            Subject::Namespaces(namespace_selector(random))
        } else {
            Subject::Pods(pods(random))
        },
        ingress: random.unless_one_in(3, |r| r.many(0..=3, |r| rule(r, Side::Ingress))),
        egress: random.unless_one_in(3, |r| r.many(0..=3, |r| rule(r, Side::Egress))),
    }
}

fn pods(random: &mut Random) -> NamespacedPod {
    NamespacedPod {
        namespace_selector: namespace_selector(random),
        pod_selector: selector(random),
    }
}

fn rule(random: &mut Random, side: Side) -> ClusterRule {
    let peers = random.many(1..=3, |r| peer(r, side));
    // "networks/nodes/domainNames peer cannot be set with namedPorts"
    let names = peers
        .iter()
        .all(|p| matches!(p, ClusterPeer::Namespaces(_) | ClusterPeer::Pods(_)));
    let (from, to) = match side {
        Side::Egress => (None, Some(peers)),
        Side::Ingress => (Some(peers), None),
    };
    ClusterRule {
        name: random
            .one_in(4)
            .then(|| random.pick(&pool::POLICIES).to_owned()),
        action: random.pick(&[
            ClusterAction::Accept,
            ClusterAction::Deny,
            ClusterAction::Pass,
        ]),
        from,
        to,
        protocols: random.unless_one_in(3, |r| r.many(1..=3, |r| protocol(r, names))),
    }
}

fn peer(random: &mut Random, side: Side) -> ClusterPeer {
    let kinds = match side {
        Side::Egress if random.one_in(10) => 4,
        Side::Egress => 3,
        Side::Ingress => 1,
    };
    match random.number(0..=kinds) {
        0 => ClusterPeer::Namespaces(namespace_selector(random)),
        1 => ClusterPeer::Pods(pods(random)),
        2 => ClusterPeer::Nodes(selector(random)),
        3 => ClusterPeer::Networks(random.many(1..=3, cidr::cidr)),
        _ => ClusterPeer::DomainNames(vec!["*.example.com".to_owned()]),
    }
}

fn protocol(random: &mut Random, names: bool) -> ClusterProtocol {
    let kinds = if names { 4 } else { 2 };
    let ports = PortMatch {
        destination_port: port(random),
    };
    match random.number(0..=kinds) {
        0 => ClusterProtocol::Tcp(ports),
        1 => ClusterProtocol::Udp(ports),
        2 => ClusterProtocol::Sctp(ports),
        _ => ClusterProtocol::DestinationNamedPort(random.pick(&pool::PORT_NAMES).to_owned()),
    }
}

fn port(random: &mut Random) -> ClusterPort {
    let start = random.pick(&pool::PORTS);
    if start == u16::MAX || random.one_in(2) {
        return ClusterPort::Number(start);
    }
    let end = random.number(usize::from(start) + 1..=u16::MAX.into()) as u16;
    ClusterPort::Range(PortRange {
        start,
        end: random.pick(&[end, start + 1, u16::MAX]),
    })
}
