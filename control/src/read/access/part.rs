//! Reading a manifest part by part, so that one bad part does not take the others with it.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::read::findings::Findings;
use crate::read::names::shown;

/// The part at `path` as a `T`. What does not fit is reported with its path.
pub(super) fn read<T: DeserializeOwned>(
    value: &Value,
    path: &str,
    findings: &mut Findings,
) -> Option<T> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| {
            let inner = error.path().to_string();
            let field = match inner.as_str() {
                "." => path.to_owned(),
                inner if inner.starts_with('[') => format!("{path}{inner}"),
                inner => format!("{path}.{inner}"),
            };
            findings.invalid(field, error.into_inner().to_string());
        })
        .ok()
}

/// Whether an object has none but these fields; the others are reported.
pub(super) fn only(value: &Value, known: &[&str], path: &str, findings: &mut Findings) -> bool {
    let Value::Object(map) = value else {
        findings.invalid(path, "is not a mapping");
        return false;
    };
    let mut all = true;
    for field in map.keys().filter(|f| !known.contains(&f.as_str())) {
        let dot = if path.is_empty() { "" } else { "." };
        findings.invalid(
            format!("{path}{dot}{field}"),
            format!(
                "{} is not a field here: these are {}",
                shown(field),
                known.join(", ")
            ),
        );
        all = false;
    }
    all
}

/// A field that is there and not null.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|v| !v.is_null())
}

/// The items of a list, each with its path; `None` when it is no list, which is reported.
pub(super) fn list<'a>(
    value: &'a Value,
    name: &str,
    path: &str,
    findings: &mut Findings,
) -> Option<&'a [Value]> {
    match field(value, name) {
        None => Some(&[]),
        Some(Value::Array(items)) => Some(items),
        Some(_) => {
            findings.invalid(format!("{path}.{name}"), "is not a list");
            None
        }
    }
}

/// All items of a list as `one` reads them; `None` when any of them is bad, or it is no list. All bad ones are reported.
pub(super) fn all<T>(
    value: &Value,
    name: &str,
    path: &str,
    findings: &mut Findings,
    mut one: impl FnMut(&Value, &str, &mut Findings) -> Option<T>,
) -> Option<Vec<T>> {
    let items = list(value, name, path, findings)?;
    let read: Vec<Option<T>> = items
        .iter()
        .enumerate()
        .map(|(i, item)| one(item, &format!("{path}.{name}[{i}]"), findings))
        .collect();
    read.into_iter().collect()
}
