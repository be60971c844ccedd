//! `policy.networking.k8s.io/v1alpha2` ClusterNetworkPolicy.
//!
//! <https://network-policy-api.sigs.k8s.io/api-overview/>, and the documentation of the API's fields in
//! `apis/v1alpha2/clusternetworkpolicy_types.go` of kubernetes-sigs/network-policy-api.

use super::cidr::Cidr;
use super::{Counts, Party, Question, Side, selector};
use crate::connection::{Connection, Protocol};
use crate::object::{
    Cluster, ClusterAction, ClusterNetworkPolicy, ClusterPeer, ClusterPort, ClusterProtocol,
    ClusterRule, ClusterTier, PortMatch, Subject,
};

/// "Policies with lower priority values have higher precedence, and are checked before policies with higher priority values in the
/// same tier": `spec.priority`. Which of two with the same priority comes first is left open; Weft takes the first by name.
/// "Pass: Skips all further ClusterNetworkPolicy rules in the current tier for the selected traffic, and passes evaluation to the
/// next tier": `action`. `None`: the tier leaves it to the next.
pub(super) fn decision(question: &Question<'_>, tier: ClusterTier, counts: Counts) -> Option<bool> {
    let mut policies: Vec<&ClusterNetworkPolicy> = question
        .cluster
        .cluster_network_policies
        .iter()
        .filter(|policy| policy.spec.tier == tier && counts.contains(&policy.metadata))
        .filter(|policy| is_subject(&policy.spec.subject, question))
        .collect();
    policies.sort_by_key(|policy| (policy.spec.priority, &policy.metadata.name));
    let action = policies
        .iter()
        .find_map(|policy| first_match(policy, question))?;
    match action {
        ClusterAction::Accept => Some(true),
        ClusterAction::Deny => Some(false),
        ClusterAction::Pass => None,
    }
}

/// "Note that host-networked pods are not included in subject selection": `spec.subject`. No such pod is ever asked about.
fn is_subject(subject: &Subject, question: &Question<'_>) -> bool {
    match subject {
        Subject::Namespaces(selector) => selector::is_in(selector, question.pod, question.cluster),
        Subject::Pods(pods) => selector::is_among(pods, question.pod, question.cluster),
    }
}

/// "The relative precedence of ingress rules within a single CNP object [...] will be determined by the order in which the rule is
/// written. [...] CNPs with no ingress rules do not affect ingress traffic": `spec.ingress`; likewise `spec.egress`.
fn first_match(policy: &ClusterNetworkPolicy, question: &Question<'_>) -> Option<ClusterAction> {
    let rules = match question.side {
        Side::Egress => &policy.spec.egress,
        Side::Ingress => &policy.spec.ingress,
    };
    rules
        .iter()
        .flatten()
        .find_map(|rule| effect(rule, question))
}

/// What a rule does, if it matches.
///
/// "For "Accept" rules, "fail closed" means: "treat the rule as matching no traffic". For "Deny" and "Pass" rules, "fail closed"
/// means: "treat the rule as a 'Deny all' rule"": `ClusterNetworkPolicyEgressPeer`. So it is done with names in DNS, which nothing
/// in the kernel knows.
fn effect(rule: &ClusterRule, question: &Question<'_>) -> Option<ClusterAction> {
    let peers = match question.side {
        Side::Egress => &rule.to,
        Side::Ingress => &rule.from,
    };
    let unknown = |peer: &ClusterPeer| matches!(peer, ClusterPeer::DomainNames(_));
    if peers.iter().flatten().any(unknown) {
        return match rule.action {
            ClusterAction::Accept => None,
            ClusterAction::Deny | ClusterAction::Pass => Some(ClusterAction::Deny),
        };
    }
    let matches = peers
        .iter()
        .flatten()
        .any(|peer| is_peer(peer, question.peer(), question.cluster))
        && is_one_of_protocols(rule, question.connection, question.destination);
    matches.then_some(rule.action)
}

/// "Note that host-networked pods are not included in this type of peer": `namespaces` and `pods`. "It selects the nodeIPs as the
/// peer type by matching on the IPs present in the node.Status.Addresses field of the node": `nodes`. "Cluster-internal traffic
/// will be checked against the rule as well": `networks`.
fn is_peer(peer: &ClusterPeer, party: &Party<'_>, cluster: &Cluster) -> bool {
    match peer {
        ClusterPeer::Namespaces(selector) => party
            .pod()
            .is_some_and(|pod| selector::is_in(selector, pod, cluster)),
        ClusterPeer::Pods(pods) => party
            .pod()
            .is_some_and(|pod| selector::is_among(pods, pod, cluster)),
        ClusterPeer::Nodes(selector) => party
            .node()
            .is_some_and(|node| selector::matches(selector, &node.metadata.labels)),
        ClusterPeer::Networks(cidrs) => cidrs
            .iter()
            .filter_map(|cidr| cidr.parse::<Cidr>().ok())
            .any(|cidr| cidr.contains(party.address)),
        ClusterPeer::DomainNames(_) => false,
    }
}

/// "If unspecified, protocol-specific attributes will not be used to match traffic": `protocols`.
fn is_one_of_protocols(
    rule: &ClusterRule,
    connection: &Connection,
    destination: &Party<'_>,
) -> bool {
    match &rule.protocols {
        None => true,
        Some(protocols) => protocols
            .iter()
            .any(|protocol| is_protocol(protocol, connection, destination)),
    }
}

/// "DestinationNamedPort selects a destination port on a pod based on the ContainerPort name": of whatever protocol the pod
/// declares it for.
fn is_protocol(
    protocol: &ClusterProtocol,
    connection: &Connection,
    destination: &Party<'_>,
) -> bool {
    let is = |wanted: Protocol, ports: &PortMatch| {
        connection.protocol == wanted && is_port(&ports.destination_port, connection)
    };
    match protocol {
        ClusterProtocol::Tcp(ports) => is(Protocol::Tcp, ports),
        ClusterProtocol::Udp(ports) => is(Protocol::Udp, ports),
        ClusterProtocol::Sctp(ports) => is(Protocol::Sctp, ports),
        ClusterProtocol::DestinationNamedPort(name) => {
            let this = (connection.protocol, connection.destination_port);
            destination
                .pod()
                .is_some_and(|pod| pod.ports_named(name).any(|port| port == this))
        }
    }
}

/// "PortRange defines an inclusive range of ports".
fn is_port(port: &ClusterPort, connection: &Connection) -> bool {
    match port {
        ClusterPort::Number(number) => *number == connection.destination_port,
        ClusterPort::Range(range) => {
            (range.start..=range.end).contains(&connection.destination_port)
        }
    }
}
