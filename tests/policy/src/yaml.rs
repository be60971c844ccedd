//! Manifests for people: JSON values as YAML.

use std::fmt::Write as _;

use serde_json::Value;

/// As a YAML document, without `---`.
#[must_use]
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    block(&mut out, value, 0);
    out
}

/// Lines of a mapping or list, each indented by `depth` steps.
fn block(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                indent(out, depth);
                out.push_str(key);
                out.push(':');
                below(out, value, depth + 1);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let mut inner = String::new();
                block(&mut inner, item, depth + 1);
                indent(out, depth);
                out.push_str("- ");
                out.push_str(inner.trim_start());
            }
        }
        // JSON's scalars and empty collections are YAML's.
        other => {
            indent(out, depth);
            let _ = writeln!(out, "{other}");
        }
    }
}

/// What follows `key:`.
fn below(out: &mut String, value: &Value, depth: usize) {
    let nested = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if nested {
        out.push('\n');
        block(out, value, depth);
    } else {
        let _ = writeln!(out, " {value}");
    }
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_as_it_was() {
        let value = serde_json::json!({
            "a": [1, {"b": "x: y", "c": []}, [["deep"], {}], "yes"],
            "d": {"e": {"f": null}, "kubernetes.io/g": true},
        });
        let back: Value = serde_saphyr::from_str(&text(&value)).unwrap();
        assert_eq!(back, value, "{}", text(&value));
    }
}
