//! NetworkPolicy.

use std::collections::BTreeSet;

use weft_proto::model::policy::{
    Direction, Effect, Expr, Match, Mode, Policy, Rule, Selector, Tier,
};

use super::{Author, peer};
use crate::object::{NetworkPeer, NetworkPolicy, NetworkPort, NetworkRule, PodSelector};

/// One for each direction that it isolates.
pub(super) fn policies(author: &Author<'_>, says: &NetworkPolicy) -> Vec<Policy> {
    let ingress = says.ingress.as_ref().map(|r| (Direction::Ingress, r));
    let egress = says.egress.as_ref().map(|r| (Direction::Egress, r));
    let both = [egress, ingress].into_iter().flatten();
    both.map(|(direction, rules)| policy(author, says, direction, rules))
        .collect()
}

fn policy(
    author: &Author<'_>,
    says: &NetworkPolicy,
    direction: Direction,
    rules: &[NetworkRule],
) -> Policy {
    Policy {
        name: author.resource(peer::part(direction)),
        origin: author.origin(),
        selector: Selector {
            namespaces: Some(BTreeSet::from([author.namespace().to_owned()])),
            labels: says.pods.0.clone(),
        },
        direction,
        tier: Tier::Namespace,
        priority: 0,
        mode: Mode::Enforce,
        effect: Effect::Allow,
        rules: rules
            .iter()
            .map(|rule| (rule.name.clone(), translate(author, rule, direction)))
            .collect(),
    }
}

fn translate(author: &Author<'_>, rule: &NetworkRule, direction: Direction) -> Rule {
    let some = !rule.peers.is_empty();
    let peers = some.then(|| rule.peers.iter().map(|p| who(author, p)).collect());
    let ports = rule.ports.iter().map(port).collect();
    peer::rule(direction, peers, ports)
}

fn who(author: &Author<'_>, from: &NetworkPeer) -> Expr {
    match from {
        NetworkPeer::Pods {
            namespaces: None,
            pods,
        } => {
            let own = Match::Namespace(peer::exactly(author.namespace()));
            peer::all_of([Expr::Is(own), peer::labels(pods)])
        }
        NetworkPeer::Pods {
            namespaces: Some(namespaces),
            pods,
        } => {
            let selector = PodSelector {
                namespaces: namespaces.clone(),
                pods: pods.clone(),
            };
            peer::pods(author.model, &selector)
        }
        NetworkPeer::Block { cidr, except } => {
            let outside = if except.is_empty() {
                Expr::Any
            } else {
                peer::not(peer::ranges(except))
            };
            peer::all_of([Expr::Is(Match::Address(*cidr)), outside])
        }
    }
}

fn port(port: &NetworkPort) -> Expr {
    let protocol = Expr::Is(Match::Protocol(port.protocol));
    peer::all_of([protocol, peer::port(&port.port)])
}
