//! What the API server would take, as far as leaving something out can break it.

use super::{
    AuthorizationRule, ClusterPeer, ClusterRule, LabelSelector, Object, Operator, Peer, PolicyPort,
    Source, Subject,
};

impl Object {
    /// Whether the API server would take it.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Namespace(_) | Self::Node(_) | Self::Pod(_) => true,
            Self::NetworkPolicy(policy) => {
                let spec = &policy.spec;
                let ingress = spec.ingress.iter().flatten();
                let egress = spec.egress.iter().flatten();
                spec.pod_selector.iter().all(selector)
                    && ingress
                        .map(|rule| (&rule.from, &rule.ports))
                        .chain(egress.map(|rule| (&rule.to, &rule.ports)))
                        .all(|(peers, ports)| {
                            peers.iter().flatten().all(peer) && ports.iter().flatten().all(port)
                        })
            }
            Self::ClusterNetworkPolicy(policy) => {
                let spec = &policy.spec;
                let subject = match &spec.subject {
                    Subject::Namespaces(namespaces) => selector(namespaces),
                    Subject::Pods(pods) => {
                        selector(&pods.namespace_selector) && selector(&pods.pod_selector)
                    }
                };
                subject
                    && spec
                        .ingress
                        .iter()
                        .flatten()
                        .all(|r| r.to.is_none() && cluster_rule(r, r.from.as_deref()))
                    && spec
                        .egress
                        .iter()
                        .flatten()
                        .all(|r| r.from.is_none() && cluster_rule(r, r.to.as_deref()))
            }
            Self::AuthorizationPolicy(policy) => {
                policy.spec.rules.iter().flatten().all(authorization_rule)
            }
        }
    }
}

fn selector(selector: &LabelSelector) -> bool {
    let requirements = selector.match_expressions.iter().flatten();
    requirements.into_iter().all(|requirement| {
        let has_values = requirement.values.as_ref().is_some_and(|v| !v.is_empty());
        has_values == matches!(requirement.operator, Operator::In | Operator::NotIn)
    })
}

fn peer(peer: &Peer) -> bool {
    let selects = peer.pod_selector.is_some() || peer.namespace_selector.is_some();
    selects != peer.ip_block.is_some()
        && peer.pod_selector.iter().all(selector)
        && peer.namespace_selector.iter().all(selector)
}

const fn port(port: &PolicyPort) -> bool {
    port.end_port.is_none() || port.port.is_some()
}

fn cluster_rule(rule: &ClusterRule, peers: Option<&[ClusterPeer]>) -> bool {
    let is_empty = |protocols: &Vec<_>| protocols.is_empty();
    !rule.protocols.as_ref().is_some_and(is_empty)
        && peers.is_some_and(|peers| !peers.is_empty() && peers.iter().all(cluster_peer))
}

fn cluster_peer(peer: &ClusterPeer) -> bool {
    match peer {
        ClusterPeer::Namespaces(namespaces) => selector(namespaces),
        ClusterPeer::Pods(pods) => {
            selector(&pods.namespace_selector) && selector(&pods.pod_selector)
        }
        ClusterPeer::Nodes(nodes) => selector(nodes),
        ClusterPeer::Networks(list) | ClusterPeer::DomainNames(list) => !list.is_empty(),
    }
}

fn authorization_rule(rule: &AuthorizationRule) -> bool {
    let from = rule.from.iter().flatten();
    let to = rule.to.iter().flatten();
    from.into_iter().all(|f| f.source != Source::default())
        && to.into_iter().all(|t| t.operation != Default::default())
        && (rule.when.iter().flatten()).all(|c| !c.values.is_empty() || !c.not_values.is_empty())
}
