//! Conditions on requests.

use serde::Deserialize;
use weft_proto::model::policy::{Pattern, StringMatch};

use super::re2;
use crate::read::findings::Findings;
use crate::read::names::shown;

/// How a name's value is compared.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub(super) enum Comparison {
    #[default]
    Exact,
    RegularExpression,
}

/// A header or query parameter and its value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedValue {
    #[serde(default, rename = "type")]
    pub(super) comparison: Comparison,
    pub(super) name: String,
    pub(super) value: String,
}

/// The conditions; of several about one name the first counts, as the Gateway API wants it. `None`: one cannot be used.
pub(super) fn values(
    list: &[NamedValue],
    field: &str,
    ignore_case: bool,
    findings: &mut Findings,
) -> Option<Vec<(String, StringMatch)>> {
    let mut found: Vec<(String, StringMatch)> = Vec::new();
    for (i, one) in list.iter().enumerate() {
        let name = match ignore_case {
            true => one.name.to_ascii_lowercase(),
            false => one.name.clone(),
        };
        if name.is_empty() || (ignore_case && !is_token(&name)) {
            findings.invalid(
                format!("{field}[{i}].name"),
                format!("{} is not a name", shown(&one.name)),
            );
            return None;
        }
        let value = value(
            one.comparison,
            &one.value,
            &format!("{field}[{i}].value"),
            findings,
        )?;
        if !found.iter().any(|(known, _)| *known == name) {
            found.push((name, value));
        }
    }
    Some(found)
}

fn value(
    comparison: Comparison,
    value: &str,
    field: &str,
    findings: &mut Findings,
) -> Option<StringMatch> {
    match comparison {
        Comparison::Exact => Some(StringMatch::exactly(value)),
        Comparison::RegularExpression => Some(StringMatch {
            pattern: Pattern::Regex(regex(value, field, findings)?),
            ignore_case: false,
        }),
    }
}

/// A regular expression that Envoy takes.
pub(super) fn regex(text: &str, field: &str, findings: &mut Findings) -> Option<String> {
    let Some(reason) = re2::refusal(text) else {
        return Some(text.to_owned());
    };
    findings.invalid(
        field,
        format!(
            "{} cannot be used as a regular expression (RE2): {reason}",
            shown(text)
        ),
    );
    None
}

/// RFC 9110 5.6.2.
pub(super) fn is_token(name: &str) -> bool {
    let is_char = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.len() <= 256 && name.bytes().all(is_char)
}
