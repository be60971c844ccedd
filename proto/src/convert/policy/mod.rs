//! `weft.policy.v1.Policy`, whose rules are an `envoy.config.rbac.v3.RBAC`.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/rbac/v3/rbac.proto>.
//!
//! Decoding never widens what a policy allows: what is not understood is an error, and what only a proxy can judge becomes
//! [`Match::Layer7`](crate::model::policy::Match::Layer7), which the kernel refuses, unless it is about a path or headers, which the
//! destination's Envoy judges.

mod metadata;
mod permission;
mod principal;
mod request;
mod rules;
mod selector;
mod text;

pub(super) use rules::encode as encode_rule;
pub(super) use text::encode as encode_string;

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::rbac::v3::{Rbac, rbac::Action};
use prost::Message;

use super::ConvertError;
use crate::model::policy::{Direction, Effect, Expr, Mode, ObjectRef, Policy, Rule, Tier};
use crate::wire::policy::v1 as wire;

/// The resource for `policy`.
#[must_use]
pub fn encode_policy(policy: &Policy) -> wire::Policy {
    wire::Policy {
        name: policy.name.clone(),
        origin: Some(wire::ObjectRef {
            kind: policy.origin.kind.clone(),
            namespace: policy.origin.namespace.clone(),
            name: policy.origin.name.clone(),
        }),
        selector: Some(selector::encode(&policy.selector)),
        direction: match policy.direction {
            Direction::Ingress => wire::Direction::Ingress,
            Direction::Egress => wire::Direction::Egress,
        } as i32,
        tier: match policy.tier {
            Tier::Admin => wire::Tier::Admin,
            Tier::Namespace => wire::Tier::Namespace,
            Tier::Baseline => wire::Tier::Baseline,
            Tier::Mesh => wire::Tier::Mesh,
        } as i32,
        priority: policy.priority,
        mode: match policy.mode {
            Mode::Enforce => wire::Mode::Enforce,
            Mode::Audit => wire::Mode::Audit,
        } as i32,
        pass: policy.effect == Effect::Pass,
        rules: Some(Rbac {
            action: match policy.effect {
                Effect::Allow | Effect::Pass => Action::Allow,
                Effect::Deny => Action::Deny,
            } as i32,
            policies: policy
                .rules
                .iter()
                .map(|(name, rule)| (name.clone(), rules::encode(rule)))
                .collect(),
            ..Rbac::default()
        }),
    }
}

/// The policy in `pb`.
///
/// # Errors
/// No name or rules, an unknown word, an effect that its tier does not have, or a condition that nothing here can judge.
pub fn decode_policy(pb: &wire::Policy) -> Result<Policy, ConvertError> {
    if pb.name.is_empty() {
        return Err(ConvertError::new("name", "is empty"));
    }
    let tier = tier(pb.tier)?;
    let Some(rbac) = &pb.rules else {
        return Err(ConvertError::new("rules", "is missing"));
    };
    Ok(Policy {
        name: pb.name.clone(),
        origin: pb.origin.as_ref().map_or_else(
            || without_origin(&pb.name),
            |o| ObjectRef {
                kind: o.kind.clone(),
                namespace: o.namespace.clone(),
                name: o.name.clone(),
            },
        ),
        selector: pb
            .selector
            .as_ref()
            .map(|s| selector::decode(s).map_err(|e| e.within("selector")))
            .transpose()?
            .unwrap_or_default(),
        direction: direction(pb.direction)?,
        tier,
        priority: pb.priority,
        mode: mode(pb.mode)?,
        effect: effect(pb.pass, tier, rbac)?,
        rules: decode_rules(rbac)?,
    })
}

/// What stands in for a policy named `name` that cannot be decoded, so that nothing passes that it may have been meant to refuse:
/// whom it selects, as far as that can be read, is refused everything, in the direction that it gives or in both. Empty for one that
/// was only to be told of.
#[must_use]
pub fn closed_policies(name: &str, bytes: &[u8]) -> Vec<Policy> {
    let pb = wire::Policy::decode(bytes).unwrap_or_default();
    let is_read = !pb.name.is_empty();
    if mode(pb.mode).is_ok_and(|mode| mode == Mode::Audit) {
        return Vec::new();
    }
    let directions = match direction(pb.direction) {
        Ok(direction) if is_read => vec![direction],
        _ => vec![Direction::Ingress, Direction::Egress],
    };
    let selector = pb.selector.as_ref().map(selector::decode);
    let selector = selector.and_then(Result::ok).unwrap_or_default();
    let rule = Rule {
        source: Expr::Any,
        destination: Expr::Any,
    };
    let closed = |direction| Policy {
        name: name.to_owned(),
        origin: without_origin(name),
        selector: selector.clone(),
        direction,
        tier: Tier::Admin,
        priority: 0,
        mode: Mode::Enforce,
        effect: Effect::Deny,
        rules: [("unreadable".to_owned(), rule.clone())].into(),
    };
    directions.into_iter().map(closed).collect()
}

/// What a policy is called of which nobody says where it is from.
fn without_origin(name: &str) -> ObjectRef {
    ObjectRef {
        kind: "Policy".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    }
}

/// One rule of an RBAC.
///
/// # Errors
/// A condition that nothing here can judge.
pub fn decode_rule(
    pb: &envoy_types::pb::envoy::config::rbac::v3::Policy,
) -> Result<Rule, ConvertError> {
    rules::decode(pb)
}

fn unknown(field: &str, number: i32) -> ConvertError {
    ConvertError::new(field, format!("{number} has no meaning here"))
}

fn direction(number: i32) -> Result<Direction, ConvertError> {
    match wire::Direction::try_from(number) {
        Ok(wire::Direction::Unspecified | wire::Direction::Ingress) => Ok(Direction::Ingress),
        Ok(wire::Direction::Egress) => Ok(Direction::Egress),
        Err(_) => Err(unknown("direction", number)),
    }
}

fn tier(number: i32) -> Result<Tier, ConvertError> {
    match wire::Tier::try_from(number) {
        Ok(wire::Tier::Admin) => Ok(Tier::Admin),
        Ok(wire::Tier::Namespace) => Ok(Tier::Namespace),
        Ok(wire::Tier::Baseline) => Ok(Tier::Baseline),
        Ok(wire::Tier::Unspecified | wire::Tier::Mesh) => Ok(Tier::Mesh),
        Err(_) => Err(unknown("tier", number)),
    }
}

fn mode(number: i32) -> Result<Mode, ConvertError> {
    match wire::Mode::try_from(number) {
        Ok(wire::Mode::Unspecified | wire::Mode::Enforce) => Ok(Mode::Enforce),
        Ok(wire::Mode::Audit) => Ok(Mode::Audit),
        Err(_) => Err(unknown("mode", number)),
    }
}

fn effect(pass: bool, tier: Tier, rbac: &Rbac) -> Result<Effect, ConvertError> {
    if pass {
        return match tier {
            Tier::Admin | Tier::Baseline => Ok(Effect::Pass),
            Tier::Namespace | Tier::Mesh => Err(ConvertError::new(
                "pass",
                "only policies of tiers ADMIN and BASELINE can leave it to the next tier",
            )),
        };
    }
    match Action::try_from(rbac.action) {
        Ok(Action::Allow) => Ok(Effect::Allow),
        Ok(Action::Deny) if tier == Tier::Namespace => Err(ConvertError::new(
            "rules.action",
            "a policy of tier NAMESPACE can only ALLOW: what none of them allows is refused",
        )),
        Ok(Action::Deny) => Ok(Effect::Deny),
        Ok(Action::Log) => Err(ConvertError::new(
            "rules.action",
            "LOG only sets metadata for Envoy's access log and decides nothing: use ALLOW or DENY, with mode AUDIT to be told of what would be refused",
        )),
        Err(_) => Err(unknown("rules.action", rbac.action)),
    }
}

fn decode_rules(rbac: &Rbac) -> Result<BTreeMap<String, Rule>, ConvertError> {
    rbac.policies
        .iter()
        .map(|(name, policy)| {
            let rule = rules::decode(policy)
                .map_err(|e| e.within(&format!("rules.policies[{name:?}]")))?;
            Ok((name.clone(), rule))
        })
        .collect()
}
