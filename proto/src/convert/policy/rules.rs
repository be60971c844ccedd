//! `envoy.config.rbac.v3.Policy`: one rule.

use envoy_types::pb::envoy::config::rbac::v3::Policy as Pb;

use super::{permission, principal};
use crate::convert::ConvertError;
use crate::model::policy::{Expr, Match, Rule};

pub(in crate::convert) fn encode(rule: &Rule) -> Pb {
    Pb {
        permissions: vec![permission::encode(&rule.destination)],
        principals: vec![principal::encode(&rule.source)],
        ..Pb::default()
    }
}

pub(super) fn decode(pb: &Pb) -> Result<Rule, ConvertError> {
    let source = alternatives(&pb.principals, "principals", principal::decode)?;
    let destination = alternatives(&pb.permissions, "permissions", permission::decode)?;
    let has_condition = pb.condition.is_some() || pb.checked_condition.is_some();
    Ok(Rule {
        source: if has_condition {
            let condition = Expr::Is(Match::Layer7("CEL condition".to_owned()));
            Expr::All(vec![source, condition])
        } else {
            source
        },
        destination,
    })
}

/// A list of which one has to match, and which Envoy does not take empty.
fn alternatives<T>(
    list: &[T],
    field: &str,
    decode: fn(&T) -> Result<Expr, ConvertError>,
) -> Result<Expr, ConvertError> {
    let mut all = decode_list(list, field, decode)?;
    Ok(match all.len() {
        1 => all.remove(0),
        _ => Expr::OneOf(all),
    })
}

/// The conditions of a list that must not be empty: it could be taken for "all" as well as for "none".
pub(super) fn decode_list<T>(
    list: &[T],
    field: &str,
    decode: fn(&T) -> Result<Expr, ConvertError>,
) -> Result<Vec<Expr>, ConvertError> {
    if list.is_empty() {
        return Err(ConvertError::new(
            field,
            "is empty: give at least one, or {any: true}",
        ));
    }
    list.iter()
        .enumerate()
        .map(|(i, one)| decode(one).map_err(|e| e.within(&format!("{field}[{i}]"))))
        .collect()
}
