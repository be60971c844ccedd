//! The plainest reading of [`weft_proto::model::policy`]: one connection, all policies, no identities and no sets.

#![expect(
    clippy::manual_try_fold,
    reason = "three-valued logic: None is unknown, not the end"
)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use regex::Regex;
use weft_proto::model::policy::{
    Cidr, Direction, Effect, Expr, IpProtocol, LabelCondition, Match, Mode, Pattern, PeerKind,
    Policy, StringMatch, Tier,
};
use weft_proto::model::{Workload, WorkloadKind};

use super::world::{HERE, World};
use crate::tables::policy::Verdict;

/// One end of a connection.
struct End<'a> {
    address: IpAddr,
    kind: PeerKind,
    workload: Option<&'a Workload>,
}

/// A connection's port at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// `None`: a protocol that policies do not tell apart.
    pub(super) protocol: Option<IpProtocol>,
    pub(super) number: u16,
}

/// What policies make of a connection, on one side of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) verdict: Verdict,
    /// Audited policies would have refused it.
    pub(super) audited: bool,
}

/// What the policies that select `pod` make of a connection between its address `own` and `peer`.
pub(super) fn evaluate(
    world: &World,
    pod: &Workload,
    own: IpAddr,
    direction: Direction,
    peer: IpAddr,
    port: Port,
) -> Expected {
    let own = world_end(world, own);
    let peer = world_end(world, peer);
    if peer.kind == PeerKind::Node && is_here(world, &peer) {
        return Expected {
            verdict: Verdict::Allow,
            audited: false,
        };
    }
    let (source, destination) = match direction {
        Direction::Egress => (&own, &peer),
        Direction::Ingress => (&peer, &own),
    };
    let mut asked: Vec<(&Policy, Option<bool>)> = world
        .policies
        .values()
        .filter(|policy| policy.direction == direction && selects(policy, pod))
        .map(|policy| (policy, matches(policy, source, destination, port)))
        .collect();
    asked.sort_by_key(|(policy, _)| (policy.priority, policy.name.clone()));
    let all = outcome(&asked, world.default);
    asked.retain(|(policy, _)| policy.mode == Mode::Enforce);
    let enforced = outcome(&asked, world.default);
    Expected {
        verdict: enforced,
        audited: enforced == Verdict::Allow && all == Verdict::Deny,
    }
}

/// Refused unless it is let through whatever a proxy would say.
fn outcome(asked: &[(&Policy, Option<bool>)], default: Verdict) -> Verdict {
    let of = |tier: Tier| {
        let asked = asked.iter().copied();
        asked.filter(|(p, _)| p.tier == tier).collect::<Vec<_>>()
    };
    let default = BTreeSet::from([default]);
    let baseline = in_order(&of(Tier::Baseline), &default);
    let namespace = of(Tier::Namespace);
    let namespace = match namespace.is_empty() {
        true => baseline,
        false => any(&namespace, Verdict::Deny),
    };
    let chain = in_order(&of(Tier::Admin), &namespace);
    let mesh = of(Tier::Mesh);
    let allows = mesh.iter().any(|(policy, _)| policy.effect != Effect::Deny);
    let mesh = any(
        &mesh,
        if allows {
            Verdict::Deny
        } else {
            Verdict::Allow
        },
    );
    match (
        chain.contains(&Verdict::Deny),
        mesh.contains(&Verdict::Deny),
    ) {
        (false, false) => Verdict::Allow,
        _ => Verdict::Deny,
    }
}

/// All answers there can be.
fn in_order(asked: &[(&Policy, Option<bool>)], next: &BTreeSet<Verdict>) -> BTreeSet<Verdict> {
    let Some(((policy, matches), rest)) = asked.split_first() else {
        return next.clone();
    };
    let mut answers = BTreeSet::new();
    if *matches != Some(false) {
        match policy.effect {
            Effect::Allow => answers.extend([Verdict::Allow]),
            Effect::Deny => answers.extend([Verdict::Deny]),
            Effect::Pass => answers.extend(next),
        }
    }
    if *matches != Some(true) {
        answers.extend(in_order(rest, next));
    }
    answers
}

fn any(asked: &[(&Policy, Option<bool>)], otherwise: Verdict) -> BTreeSet<Verdict> {
    let or = |effect: Effect| {
        let all = asked.iter().filter(|(policy, _)| policy.effect == effect);
        all.fold(Some(false), |or, (_, one)| either(or, *one))
    };
    let mut answers = BTreeSet::new();
    let refuses = or(Effect::Deny);
    if refuses != Some(false) {
        answers.insert(Verdict::Deny);
    }
    if refuses != Some(true) {
        let allows = or(Effect::Allow);
        if allows != Some(false) {
            answers.insert(Verdict::Allow);
        }
        if allows != Some(true) {
            answers.insert(otherwise);
        }
    }
    answers
}

fn either(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn both(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    either(a.map(|a| !a), b.map(|b| !b)).map(|neither| !neither)
}

fn selects(policy: &Policy, pod: &Workload) -> bool {
    let selector = &policy.selector;
    let namespaces = selector.namespaces.as_ref();
    namespaces.is_none_or(|n| n.contains(&pod.namespace))
        && selector.labels.iter().all(|requirement| {
            let value = pod.labels.get(&requirement.key);
            match (&requirement.is, value) {
                (LabelCondition::In(values), Some(value)) => values.contains(value),
                (LabelCondition::NotIn(values), Some(value)) => !values.contains(value),
                (LabelCondition::Exists, Some(_)) => true,
                (LabelCondition::NotIn(_) | LabelCondition::DoesNotExist, None) => true,
                _ => false,
            }
        })
}

fn matches(policy: &Policy, source: &End<'_>, destination: &End<'_>, port: Port) -> Option<bool> {
    let rule = policy.rules.values().map(|rule| {
        let source = holds(&rule.source, source, None);
        both(source, holds(&rule.destination, destination, Some(port)))
    });
    rule.fold(Some(false), either)
}

fn holds(expr: &Expr, end: &End<'_>, port: Option<Port>) -> Option<bool> {
    match expr {
        Expr::Any => Some(true),
        Expr::All(list) => list
            .iter()
            .fold(Some(true), |all, e| both(all, holds(e, end, port))),
        Expr::OneOf(list) => list
            .iter()
            .fold(Some(false), |any, e| either(any, holds(e, end, port))),
        Expr::Not(e) => holds(e, end, port).map(|holds| !holds),
        Expr::Is(single) => is(single, end, port),
    }
}

fn is(single: &Match, end: &End<'_>, port: Option<Port>) -> Option<bool> {
    let pod = end.workload.filter(|_| end.kind == PeerKind::Pod);
    let text = |text: Option<&str>, wanted: &StringMatch| text.is_some_and(|t| says(wanted, t));
    Some(match single {
        Match::Address(cidr) => within(cidr, end.address),
        Match::Ports(first, last) => {
            let port = port?;
            let has_ports = matches!(
                port.protocol,
                Some(IpProtocol::Tcp | IpProtocol::Udp | IpProtocol::Sctp)
            );
            has_ports && (*first..=*last).contains(&port.number)
        }
        Match::PortName(name) => {
            let port = port?;
            let named = pod.into_iter().flat_map(|pod| &pod.ports);
            let mut named = named.filter(|p| p.name == *name);
            let first = named.find(|p| Some(p.protocol) == port.protocol);
            first.is_some_and(|p| p.port == port.number)
        }
        Match::Protocol(protocol) => port?.protocol == Some(*protocol),
        Match::Namespace(wanted) => text(pod.map(|p| p.namespace.as_str()), wanted),
        Match::ServiceAccount(wanted) => text(pod.map(|p| p.service_account.as_str()), wanted),
        Match::Label(key, wanted) => {
            let value = end.workload.and_then(|w| w.labels.get(key));
            value.is_some_and(|v| wanted.as_ref().is_none_or(|wanted| says(wanted, v)))
        }
        Match::SpiffeId(wanted) => {
            let id = pod.map(|p| p.spiffe_id.as_str());
            text(id.filter(|id| !id.is_empty()), wanted)
        }
        Match::Kind(kind) => end.kind == *kind,
        Match::Path(_) | Match::Header(..) | Match::Layer7(_) => return None,
    })
}

fn says(wanted: &StringMatch, text: &str) -> bool {
    let fold = |text: &str| match wanted.ignore_case {
        true => text.to_ascii_lowercase(),
        false => text.to_owned(),
    };
    let folded = fold(text);
    match &wanted.pattern {
        Pattern::Exact(p) => folded == fold(p),
        Pattern::Prefix(p) => folded.starts_with(&fold(p)),
        Pattern::Suffix(p) => folded.ends_with(&fold(p)),
        Pattern::Contains(p) => folded.contains(&fold(p)),
        Pattern::Regex(p) => {
            let found = Regex::new(p).expect("generated").find(text);
            found.is_some_and(|found| found.len() == text.len())
        }
    }
}

fn within(cidr: &Cidr, address: IpAddr) -> bool {
    Cidr::new(address, cidr.prefix).is_some_and(|around| around == *cidr)
}

fn world_end(world: &World, address: IpAddr) -> End<'_> {
    let at = |w: &&Workload| w.addresses.contains(&address);
    let mut all = world.workloads.values();
    let node = |name: &str| {
        let node = |w: &&Workload| w.kind == WorkloadKind::Node && w.node == name;
        world.workloads.values().find(node)
    };
    let end = |kind, workload| End {
        address,
        kind,
        workload,
    };
    if world.host.contains(&address) {
        return end(PeerKind::Node, node(HERE));
    }
    if let Some(found) = all.clone().find(|w| at(w) && w.kind == WorkloadKind::Node) {
        return end(PeerKind::Node, Some(found));
    }
    if let Some(found) = all.clone().find(|w| at(w) && w.host_network) {
        return end(PeerKind::Node, node(&found.node));
    }
    match all.find(at) {
        Some(found) => end(PeerKind::Pod, Some(found)),
        None => end(PeerKind::External, None),
    }
}

fn is_here(world: &World, end: &End<'_>) -> bool {
    let at = |w: &&Workload| w.addresses.contains(&end.address);
    world.host.contains(&end.address)
        || end.workload.is_some_and(|w| w.node == HERE)
        || world
            .workloads
            .values()
            .filter(at)
            .any(|w| w.host_network && w.node == HERE)
}
