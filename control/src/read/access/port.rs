//! Ports of rules.

use serde_json::Value;

use crate::object::PortChoice;
use crate::read::names::shown;

/// A number from 1 to 65535.
pub(super) fn number(value: i64) -> Result<u16, String> {
    u16::try_from(value)
        .ok()
        .filter(|port| *port != 0)
        .ok_or_else(|| format!("{value} is not a port: give 1 to 65535"))
}

/// A number, or the name of a port (Kubernetes' `IntOrString`).
pub(super) fn number_or_name(value: &Value) -> Result<PortChoice, String> {
    match value {
        Value::Number(n) => {
            let port = number(n.as_i64().unwrap_or(-1))?;
            Ok(PortChoice::Range(port, port))
        }
        Value::String(name) => {
            check_name(name)?;
            Ok(PortChoice::Name(name.clone()))
        }
        _ => Err("is neither a number nor a name".to_owned()),
    }
}

/// RFC 6335, section 5.1.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let bytes = name.as_bytes();
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let good = bytes.len() <= 15
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
        && bytes.iter().any(u8::is_ascii_lowercase)
        && !name.contains("--");
    if good {
        return Ok(());
    }
    Err(format!(
        "{} is not a port name: at most 15 lower-case letters, digits and single \"-\", with at least one letter (a number goes without quotes)",
        shown(name)
    ))
}
