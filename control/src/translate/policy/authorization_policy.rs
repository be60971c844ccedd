//! AuthorizationPolicy.

use std::collections::BTreeSet;

use weft_proto::model::policy::{
    Direction, Effect, Expr, Match, Mode, Policy, Rule, Selector, Tier,
};

use super::{Author, peer};
use crate::object::{Action, AuthorizationPolicy, AuthorizationRule, Clause, Side};

pub(super) fn policy(author: &Author<'_>, says: &AuthorizationPolicy) -> Policy {
    let everywhere = author.namespace() == author.root_namespace && !says.own_namespace_only;
    let (effect, mode) = match says.action {
        Action::Allow => (Effect::Allow, Mode::Enforce),
        Action::Deny | Action::Custom(_) => (Effect::Deny, Mode::Enforce),
        // What it matches is told of and passes.
        Action::Audit => (Effect::Deny, Mode::Audit),
    };
    Policy {
        name: author.resource("ingress"),
        origin: author.origin(),
        selector: Selector {
            namespaces: (!everywhere).then(|| BTreeSet::from([author.namespace().to_owned()])),
            labels: says.workloads.0.clone(),
        },
        direction: Direction::Ingress,
        tier: Tier::Mesh,
        priority: 0,
        mode,
        effect,
        rules: says
            .rules
            .iter()
            .map(|rule| (rule.name.clone(), translate(&says.action, rule)))
            .collect(),
    }
}

fn translate(action: &Action, rule: &AuthorizationRule) -> Rule {
    let when = |side: Side| rule.when.iter().filter(move |c| c.side == side).map(clause);
    let provider = match action {
        Action::Custom(name) => {
            // What the provider would answer, nobody here knows.
            Expr::Is(Match::Layer7(format!("CUSTOM action of {name}")))
        }
        Action::Allow | Action::Deny | Action::Audit => Expr::Any,
    };
    let from = alternatives(&rule.from);
    let to = alternatives(&rule.to);
    Rule {
        source: peer::all_of([from].into_iter().chain(when(Side::Source))),
        destination: peer::all_of([to, provider].into_iter().chain(when(Side::Destination))),
    }
}

fn alternatives(list: &[Vec<Clause>]) -> Expr {
    if list.is_empty() {
        return Expr::Any;
    }
    peer::one_of(
        list.iter()
            .map(|clauses| peer::all_of(clauses.iter().map(clause))),
    )
}

fn clause(clause: &Clause) -> Expr {
    let is = |list: &[Match]| peer::one_of(list.iter().cloned().map(Expr::Is));
    let positive = (!clause.one_of.is_empty()).then(|| is(&clause.one_of));
    let negative = (!clause.none_of.is_empty()).then(|| peer::not(is(&clause.none_of)));
    peer::all_of(positive.into_iter().chain(negative))
}
