//! ClusterNetworkPolicy.

use std::collections::BTreeMap;

use weft_proto::model::policy::{Direction, Expr, Match, Mode, PeerKind, Policy, Rule};

use super::{Author, peer};
use crate::object::{ClusterNetworkPolicy, ClusterPeer, ClusterPort, ClusterRule};

/// One for each rule: they differ in what they do, and their order is that of the names.
pub(super) fn policies(author: &Author<'_>, says: &ClusterNetworkPolicy) -> Vec<Policy> {
    let ingress = says.ingress.iter().map(|r| (Direction::Ingress, r));
    let egress = says.egress.iter().map(|r| (Direction::Egress, r));
    let both = egress.chain(ingress);
    both.map(|(direction, rule)| policy(author, says, direction, rule))
        .collect()
}

fn policy(
    author: &Author<'_>,
    says: &ClusterNetworkPolicy,
    direction: Direction,
    rule: &ClusterRule,
) -> Policy {
    let part = peer::part(direction);
    Policy {
        name: author.resource(&format!("{part}/{:04}", rule.index)),
        origin: author.origin(),
        selector: peer::subject(author.model, &says.subject),
        direction,
        tier: says.tier,
        priority: says.priority,
        mode: Mode::Enforce,
        effect: rule.effect,
        rules: BTreeMap::from([(rule.name.clone(), translate(author, rule, direction))]),
    }
}

fn translate(author: &Author<'_>, rule: &ClusterRule, direction: Direction) -> Rule {
    let peers = rule.peers.as_ref();
    let peers = peers.map(|list| list.iter().map(|p| who(author, p)).collect());
    let ports = rule.ports.iter().map(port).collect();
    peer::rule(direction, peers, ports)
}

fn who(author: &Author<'_>, to: &ClusterPeer) -> Expr {
    match to {
        ClusterPeer::Pods(selector) => peer::pods(author.model, selector),
        ClusterPeer::Nodes(selector) => peer::all_of([
            Expr::Is(Match::Kind(PeerKind::Node)),
            peer::labels(selector),
        ]),
        ClusterPeer::Networks(list) => peer::ranges(list),
    }
}

fn port(port: &ClusterPort) -> Expr {
    let protocol = port.protocol.map(|p| Expr::Is(Match::Protocol(p)));
    peer::all_of([protocol.unwrap_or(Expr::Any), peer::port(&port.port)])
}
