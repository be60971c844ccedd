//! Writes JSON values as the block YAML people write Kubernetes objects in.

use std::fmt::Write;

use serde_json::Value;

/// `value` as one YAML document, ending with a newline.
pub(super) fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    write_block(&mut text, value, 0);
    text
}

fn write_block(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (number, (key, value)) in map.iter().enumerate() {
                // The first key of a list item stands behind the dash.
                if number > 0 || text.ends_with('\n') || text.is_empty() {
                    pad(text, indent);
                }
                text.push_str(&scalar(&Value::String(key.clone())));
                text.push(':');
                write_value(text, value, indent + 2);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                pad(text, indent);
                text.push_str("- ");
                write_block(text, item, indent + 2);
            }
        }
        other => {
            text.push_str(&scalar(other));
            text.push('\n');
        }
    }
}

fn write_value(text: &mut String, value: &Value, indent: usize) {
    let nested = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    text.push(if nested { '\n' } else { ' ' });
    write_block(text, value, indent);
}

fn pad(text: &mut String, indent: usize) {
    let _ = write!(text, "{:indent$}", "");
}

/// Plain where no YAML reader could take it for anything but this string; JSON, which is YAML too, otherwise.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(s) if is_plain(s) => s.clone(),
        other => other.to_string(),
    }
}

fn is_plain(s: &str) -> bool {
    let starts_well = s.starts_with(|c: char| c.is_ascii_alphabetic());
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/');
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    // A short all-hexadecimal word such as `e5` would do, but an address such as `fd00::1` has a colon and is quoted.
    starts_well && s.chars().all(safe) && !reserved.contains(&s.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn writes_blocks_lists_and_quotes_what_needs_it() {
        let value = json!({
            "kind": "Service",
            "metadata": {"labels": {}, "name": "on"},
            "spec": {"clusterIPs": ["10.96.0.1", "fd00:96::1"], "ports": [{"name": "http", "port": 80}]},
        });
        let expected = "\
kind: Service
metadata:
  labels: {}
  name: \"on\"
spec:
  clusterIPs:
    - \"10.96.0.1\"
    - \"fd00:96::1\"
  ports:
    - name: http
      port: 80
";
        assert_eq!(to_yaml(&value), expected);
    }

    #[test]
    fn strings_that_look_like_other_types_stay_strings() {
        for text in ["true", "No", "12", "", "-", "a: b", "x\"y", "a b", "~"] {
            assert_eq!(
                scalar(&Value::String(text.into())),
                serde_json::to_string(text).expect("strings are JSON")
            );
        }
        assert_eq!(
            scalar(&Value::String("web-1.shop/x".into())),
            "web-1.shop/x"
        );
    }
}
