//! `networking.k8s.io/v1` NetworkPolicy.
//!
//! <https://kubernetes.io/docs/concepts/services-networking/network-policies/>, and the documentation of the API's fields:
//! <https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/network-policy-v1/>.

use super::cidr::Cidr;
use super::{Counts, Party, Question, Side, selector};
use crate::connection::{Connection, Protocol};
use crate::object::{Cluster, IntOrString, IpBlock, NetworkPolicy, Peer, PolicyPort, PolicyType};

/// "By default, a pod is non-isolated [...] A pod is isolated for egress if there is any NetworkPolicy that both selects the pod and
/// has "Egress" in its policyTypes [...] When a pod is isolated for egress, the only allowed connections from the pod are those
/// allowed by the egress list of some NetworkPolicy that applies to the pod for egress [...] The effects of those egress lists
/// combine additively." Likewise for ingress. `None`: not isolated.
///
/// <https://kubernetes.io/docs/concepts/services-networking/network-policies/#the-two-sorts-of-pod-isolation>
pub(super) fn decision(question: &Question<'_>, counts: Counts) -> Option<bool> {
    let applying: Vec<&NetworkPolicy> = question
        .cluster
        .network_policies
        .iter()
        .filter(|policy| counts.contains(&policy.metadata) && applies(policy, question))
        .collect();
    if applying.is_empty() {
        return None;
    }
    Some(applying.iter().any(|policy| lets_through(policy, question)))
}

/// "An empty selector matches all pods in the policy's namespace. [...] If it is not specified, it defaults to an empty selector":
/// `spec.podSelector`.
fn applies(policy: &NetworkPolicy, question: &Question<'_>) -> bool {
    let pod = &question.pod.metadata;
    let selector = policy.spec.pod_selector.clone().unwrap_or_default();
    policy.metadata.namespace == pod.namespace
        && selector::matches(&selector, &pod.labels)
        && is_about(policy, question.side)
}

/// "If no policyTypes are specified on a NetworkPolicy then by default Ingress will always be set and Egress will be set if the
/// NetworkPolicy has any egress rules."
///
/// <https://kubernetes.io/docs/concepts/services-networking/network-policies/#networkpolicy-resource>
fn is_about(policy: &NetworkPolicy, side: Side) -> bool {
    let wanted = match side {
        Side::Egress => PolicyType::Egress,
        Side::Ingress => PolicyType::Ingress,
    };
    match policy.spec.policy_types.as_deref() {
        None | Some([]) => {
            side == Side::Ingress || policy.spec.egress.as_ref().is_some_and(|e| !e.is_empty())
        }
        Some(types) => types.contains(&wanted),
    }
}

/// "The traffic must match both ports and from": `NetworkPolicyIngressRule`; likewise "to" of `NetworkPolicyEgressRule`.
fn lets_through(policy: &NetworkPolicy, question: &Question<'_>) -> bool {
    let matches = |peers: Option<&[Peer]>, ports: Option<&[PolicyPort]>| {
        is_one_of_peers(peers, question.peer(), policy, question.cluster)
            && is_one_of_ports(ports, question.connection, question.destination)
    };
    let spec = &policy.spec;
    match question.side {
        Side::Egress => spec
            .egress
            .iter()
            .flatten()
            .any(|rule| matches(rule.to.as_deref(), rule.ports.as_deref())),
        Side::Ingress => spec
            .ingress
            .iter()
            .flatten()
            .any(|rule| matches(rule.from.as_deref(), rule.ports.as_deref())),
    }
}

/// "If this field is empty or missing, this rule matches all sources [...] If this field is present and contains at least one item,
/// this rule allows traffic only if the traffic matches at least one item in the from list": `from`; likewise `to`.
fn is_one_of_peers(
    peers: Option<&[Peer]>,
    party: &Party<'_>,
    policy: &NetworkPolicy,
    cluster: &Cluster,
) -> bool {
    match peers {
        None | Some([]) => true,
        Some(peers) => peers
            .iter()
            .any(|peer| is_peer(peer, party, policy, cluster)),
    }
}

/// "If namespaceSelector is also set, then the NetworkPolicyPeer as a whole selects the pods matching podSelector in the Namespaces
/// selected by NamespaceSelector. Otherwise it selects the pods matching podSelector in the policy's own namespace":
/// `podSelector`. "[...] Otherwise it selects all pods in the namespaces selected by namespaceSelector": `namespaceSelector`.
fn is_peer(peer: &Peer, party: &Party<'_>, policy: &NetworkPolicy, cluster: &Cluster) -> bool {
    if let Some(block) = &peer.ip_block {
        return is_in_block(block, party);
    }
    let Some(pod) = party.pod() else {
        return false;
    };
    let in_namespace = match &peer.namespace_selector {
        Some(selector) => selector::is_in(selector, pod, cluster),
        None => pod.metadata.namespace == policy.metadata.namespace,
    };
    let has_labels = match &peer.pod_selector {
        Some(selector) => selector::matches(selector, &pod.metadata.labels),
        None => peer.namespace_selector.is_some(),
    };
    in_namespace && has_labels
}

/// "The except entry describes CIDRs that should not be included within this rule": `IPBlock`. It is about addresses, whoever has
/// them.
fn is_in_block(block: &IpBlock, party: &Party<'_>) -> bool {
    let contains = |cidr: &String| {
        cidr.parse::<Cidr>()
            .is_ok_and(|cidr| cidr.contains(party.address))
    };
    contains(&block.cidr) && !block.except.iter().flatten().any(contains)
}

/// "If this field is empty or missing, this rule matches all ports (traffic not restricted by port)": `ports`.
fn is_one_of_ports(
    ports: Option<&[PolicyPort]>,
    connection: &Connection,
    destination: &Party<'_>,
) -> bool {
    match ports {
        None | Some([]) => true,
        Some(ports) => ports
            .iter()
            .any(|port| is_port(port, connection, destination)),
    }
}

/// "protocol represents the protocol (TCP, UDP, or SCTP) which traffic must match. If not specified, this field defaults to TCP.
/// [...] port [...] can either be a numerical or named port on a pod. If this field is not provided, this matches all port names
/// and numbers. [...] endPort indicates that the range of ports from port to endPort if set, inclusive, should be allowed by the
/// policy": `NetworkPolicyPort`. A named port is one of the destination pod's; what is no pod has none.
fn is_port(port: &PolicyPort, connection: &Connection, destination: &Party<'_>) -> bool {
    let protocol = port.protocol.unwrap_or(Protocol::Tcp);
    if connection.protocol != protocol {
        return false;
    }
    let number = connection.destination_port;
    match &port.port {
        None => true,
        Some(IntOrString::Int(first)) => {
            (*first..=port.end_port.unwrap_or(*first)).contains(&number)
        }
        Some(IntOrString::String(name)) => destination
            .pod()
            .is_some_and(|pod| pod.ports_named(name).any(|p| p == (protocol, number))),
    }
}
