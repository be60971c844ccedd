//! Policies as Envoy can ask them.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_proto::model::inbound::{Guard, Rules};
use weft_proto::model::policy::{Effect, Expr, IpProtocol, Match, Mode, Policy, Rule};

use super::identity::Sources;

/// A policy whose conditions about clients are conditions on their addresses.
#[derive(Debug)]
pub(super) struct Resolved {
    effect: Effect,
    mode: Mode,
    rules: Rules,
    /// Whether it may be another when pods or nodes are.
    pub(super) is_about_workloads: bool,
}

impl Resolved {
    pub(super) fn new(policy: &Policy, sources: &Sources<'_>) -> Self {
        let mut is_about_workloads = false;
        let origin = format!("{}/{}", policy.origin.namespace, policy.origin.name);
        let rules = policy.rules.iter().map(|(name, rule)| {
            let mut about = |single: &Match| is_about_workloads |= is_about_who(single);
            rule.source.matches(&mut about);
            // What nobody can tell lets nothing through.
            let unknown = policy.effect == Effect::Deny;
            let rule = Rule {
                source: resolve(&rule.source, unknown, &|single| source(single, sources)),
                destination: resolve(&rule.destination, unknown, &destination),
            };
            (rule_name(&origin, name), Arc::new(rule))
        });
        let rules = rules.collect();
        Self {
            effect: policy.effect,
            mode: policy.mode,
            rules,
            is_about_workloads,
        }
    }
}

/// Envoy takes white space out of names where it tells of them.
fn rule_name(origin: &str, rule: &str) -> String {
    format!("{origin}|{rule}")
}

/// What is asked of requests to the pod of this name, by those policies that select it.
pub(super) fn guard(pod: &str, policies: Vec<&Resolved>) -> Guard {
    let of = |effect: Effect, mode: Mode| {
        let chosen = policies.iter();
        chosen.filter(move |p| p.effect == effect && p.mode == mode)
    };
    let rules = |effect, mode| -> Rules {
        let all = of(effect, mode).flat_map(|policy| &policy.rules);
        all.map(|(name, rule)| (name.clone(), Arc::clone(rule)))
            .collect()
    };
    let any = |effect, mode| of(effect, mode).next().is_some();
    let allow = any(Effect::Allow, Mode::Enforce).then(|| rules(Effect::Allow, Mode::Enforce));
    let audited_allow = any(Effect::Allow, Mode::Audit).then(|| {
        let mut all: BTreeMap<_, _> = rules(Effect::Allow, Mode::Audit);
        all.extend(rules(Effect::Allow, Mode::Enforce));
        all
    });
    Guard {
        name: format!("weft.inbound/{pod}"),
        deny: rules(Effect::Deny, Mode::Enforce),
        allow,
        audited_deny: rules(Effect::Deny, Mode::Audit),
        audited_allow,
    }
}

fn is_about_who(single: &Match) -> bool {
    matches!(
        single,
        Match::Namespace(_)
            | Match::ServiceAccount(_)
            | Match::Label(..)
            | Match::SpiffeId(_)
            | Match::Kind(_)
    )
}

fn source(single: &Match, sources: &Sources<'_>) -> Option<Expr> {
    match single {
        Match::Address(_) | Match::Path(_) | Match::Header(..) => Some(Expr::Is(single.clone())),
        other => sources.condition(other),
    }
}

fn destination(single: &Match) -> Option<Expr> {
    match single {
        Match::Address(_) | Match::Ports(..) | Match::Path(_) | Match::Header(..) => {
            Some(Expr::Is(single.clone()))
        }
        Match::Protocol(protocol) => Some(constant(*protocol == IpProtocol::Tcp)),
        _ => None,
    }
}

/// The same condition, of what Envoy can tell. What it cannot (`None`) is taken for what makes the whole `unknown`.
fn resolve(expr: &Expr, unknown: bool, single: &impl Fn(&Match) -> Option<Expr>) -> Expr {
    let list = |list: &[Expr]| list.iter().map(|e| resolve(e, unknown, single)).collect();
    match expr {
        Expr::Any => Expr::Any,
        Expr::All(all) => Expr::All(list(all)),
        Expr::OneOf(some) => Expr::OneOf(list(some)),
        Expr::Not(inner) => Expr::Not(Box::new(resolve(inner, !unknown, single))),
        Expr::Is(one) => single(one).unwrap_or_else(|| constant(unknown)),
    }
}

fn constant(value: bool) -> Expr {
    match value {
        true => Expr::Any,
        false => Expr::OneOf(Vec::new()),
    }
}
