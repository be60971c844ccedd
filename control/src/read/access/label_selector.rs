//! `LabelSelector` of Kubernetes meta/v1.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use weft_proto::model::policy::{LabelCondition, LabelRequirement};

use super::part;
use crate::object::LabelSelector;
use crate::read::findings::Findings;
use crate::read::names::{check_subdomain, shown};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Shape {
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expression {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

/// `None` when anything in it is bad.
pub(super) fn read(value: &Value, path: &str, findings: &mut Findings) -> Option<LabelSelector> {
    let shape: Shape = part::read(value, path, findings)?;
    let mut requirements = Vec::new();
    let mut good = true;
    for (key, value) in shape.match_labels.unwrap_or_default() {
        let field = format!("{path}.matchLabels[{key}]");
        match check_key(&key).and_then(|()| check_value(&value)) {
            Ok(()) => requirements.push(LabelRequirement {
                key,
                is: LabelCondition::In(BTreeSet::from([value])),
            }),
            Err(message) => {
                findings.invalid(field, message);
                good = false;
            }
        }
    }
    let expressions = shape.match_expressions.unwrap_or_default();
    for (i, expression) in expressions.into_iter().enumerate() {
        match requirement(expression) {
            Ok(requirement) => requirements.push(requirement),
            Err((field, message)) => {
                findings.invalid(format!("{path}.matchExpressions[{i}].{field}"), message);
                good = false;
            }
        }
    }
    good.then_some(LabelSelector(requirements))
}

fn requirement(expression: Expression) -> Result<LabelRequirement, (&'static str, String)> {
    let Expression {
        key,
        operator,
        values,
    } = expression;
    check_key(&key).map_err(|m| ("key", m))?;
    let values: BTreeSet<String> = values.into_iter().flatten().collect();
    let is = match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            return Err((
                "values",
                format!("is empty: {operator} needs at least one value"),
            ));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            return Err(("values", format!("must be empty with {operator}")));
        }
        "In" => LabelCondition::In(values),
        "NotIn" => LabelCondition::NotIn(values),
        "Exists" => LabelCondition::Exists,
        "DoesNotExist" => LabelCondition::DoesNotExist,
        other => {
            return Err((
                "operator",
                format!(
                    "{} is not an operator: use In, NotIn, Exists or DoesNotExist",
                    shown(other)
                ),
            ));
        }
    };
    if let LabelCondition::In(values) | LabelCondition::NotIn(values) = &is {
        for value in values {
            check_value(value).map_err(|m| ("values", m))?;
        }
    }
    Ok(LabelRequirement { key, is })
}

fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_none_or(|p| check_subdomain(p).is_ok()) && is_qualified(name) {
        return Ok(());
    }
    Err(format!(
        "{} is not a label key: at most 63 letters, digits, \"-\", \"_\" or \".\", beginning and ending in a letter or digit, with or without a DNS subdomain and \"/\" before it",
        shown(key)
    ))
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || is_qualified(value) {
        return Ok(());
    }
    Err(format!(
        "{} is not a label value: at most 63 letters, digits, \"-\", \"_\" or \".\", beginning and ending in a letter or digit",
        shown(value)
    ))
}

fn is_qualified(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}
