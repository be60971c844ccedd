//! Peers and ports as conditions.

use weft_proto::model::policy::{
    Cidr, Direction, Expr, LabelCondition, LabelRequirement, Match, Pattern, PeerKind, Rule,
    Selector, StringMatch,
};

use crate::model::Model;
use crate::object::{LabelSelector, PodSelector, PortChoice};

pub(super) fn exactly(text: &str) -> StringMatch {
    StringMatch {
        pattern: Pattern::Exact(text.to_owned()),
        ignore_case: false,
    }
}

/// One of these; a single one stands for itself.
pub(super) fn one_of(list: impl IntoIterator<Item = Expr>) -> Expr {
    let mut list: Vec<Expr> = list.into_iter().collect();
    match list.len() {
        1 => list.remove(0),
        _ => Expr::OneOf(list),
    }
}

/// All of these, those left out that hold anyhow; a single one stands for itself.
pub(super) fn all_of(list: impl IntoIterator<Item = Expr>) -> Expr {
    let mut list: Vec<Expr> = list.into_iter().filter(|e| *e != Expr::Any).collect();
    match list.len() {
        0 => Expr::Any,
        1 => list.remove(0),
        _ => Expr::All(list),
    }
}

pub(super) fn not(expr: Expr) -> Expr {
    Expr::Not(Box::new(expr))
}

/// As resource names and people call it.
pub(super) const fn part(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    }
}

/// Connections between the selected pod and one of `peers`, to one of `ports`. `None`, and no ports at all: any.
pub(super) fn rule(direction: Direction, peers: Option<Vec<Expr>>, ports: Vec<Expr>) -> Rule {
    let peers = peers.map_or(Expr::Any, one_of);
    let ports = match ports.is_empty() {
        true => Expr::Any,
        false => one_of(ports),
    };
    match direction {
        Direction::Ingress => Rule {
            source: peers,
            destination: ports,
        },
        Direction::Egress => Rule {
            source: Expr::Any,
            destination: all_of([peers, ports]),
        },
    }
}

/// Pods of the namespaces and with the labels that both select.
pub(super) fn pods(model: &Model, selector: &PodSelector) -> Expr {
    let namespaces = if selector.namespaces.is_everything() {
        Expr::Is(Match::Kind(PeerKind::Pod))
    } else {
        let names = model.selected_namespaces(&selector.namespaces);
        one_of(names.map(|name| Expr::Is(Match::Namespace(exactly(name)))))
    };
    all_of([namespaces, labels(&selector.pods)])
}

/// Whom a policy of the cluster selects.
pub(super) fn subject(model: &Model, selector: &PodSelector) -> Selector {
    let names = || model.selected_namespaces(&selector.namespaces);
    Selector {
        namespaces: (!selector.namespaces.is_everything())
            .then(|| names().map(ToString::to_string).collect()),
        labels: selector.pods.0.clone(),
    }
}

pub(super) fn labels(selector: &LabelSelector) -> Expr {
    all_of(selector.0.iter().map(requirement))
}

fn requirement(requirement: &LabelRequirement) -> Expr {
    let has = |value: Option<&String>| {
        let value = value.map(|v| exactly(v));
        Expr::Is(Match::Label(requirement.key.clone(), value))
    };
    match &requirement.is {
        LabelCondition::In(values) => one_of(values.iter().map(|v| has(Some(v)))),
        LabelCondition::NotIn(values) => not(one_of(values.iter().map(|v| has(Some(v))))),
        LabelCondition::Exists => has(None),
        LabelCondition::DoesNotExist => not(has(None)),
    }
}

pub(super) fn ranges(list: &[Cidr]) -> Expr {
    one_of(list.iter().map(|cidr| Expr::Is(Match::Address(*cidr))))
}

pub(super) fn port(port: &PortChoice) -> Expr {
    match port {
        PortChoice::All => Expr::Any,
        PortChoice::Range(first, last) => Expr::Is(Match::Ports(*first, *last)),
        PortChoice::Name(name) => Expr::Is(Match::PortName(name.clone())),
    }
}
