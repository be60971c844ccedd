//! What a rule of AuthorizationPolicy says about an HTTP request.
//!
//! <https://istio.io/latest/docs/reference/config/security/authorization-policy/#Operation>

use weft_proto::model::policy::{Match, StringMatch};

use super::clause::pattern;
use crate::read::names::shown;

/// No header, path or method that anybody means is longer; Envoy takes 60 KiB of headers in all.
const LONGEST: usize = 4096;

/// An entry of `hosts`: the authority, port included if the client gives one, in either case.
pub(super) fn host(text: &str) -> Result<Match, String> {
    let value = text_of(text)?;
    Ok(of_header(
        ":authority",
        StringMatch {
            ignore_case: true,
            ..value
        },
    ))
}

/// An entry of `methods`.
pub(super) fn method(text: &str) -> Result<Match, String> {
    Ok(of_header(":method", text_of(text)?))
}

/// An entry of `paths`: without the query.
pub(super) fn path(text: &str) -> Result<Match, String> {
    if text.contains("{*}") || text.contains("{**}") {
        return Err(format!(
            "{} is a path template, which is not supported: use \"/abc\", \"/abc/*\" or \"*/abc\"",
            shown(text)
        ));
    }
    text_of(text).map(Match::Path)
}

/// A value of a condition on `request.headers[NAME]`.
pub(super) fn header(key: &str, text: &str) -> Result<Match, String> {
    let name = header_name(key).ok_or_else(|| format!("{} names no header", shown(key)))?;
    Ok(of_header(&name, text_of(text)?))
}

/// The header in `request.headers[NAME]`, in lower case; `None` for any other key, and for names that no header has (RFC 9110 5.1).
pub(super) fn header_name(key: &str) -> Option<String> {
    let name = key.strip_prefix("request.headers[")?.strip_suffix(']')?;
    let bare = name.strip_prefix(':').unwrap_or(name);
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let good = !bare.is_empty() && bare.len() <= LONGEST && bare.chars().all(is_token);
    good.then(|| name.to_ascii_lowercase())
}

fn of_header(name: &str, value: StringMatch) -> Match {
    let value = (!value.is_anything()).then_some(value);
    Match::Header(name.to_owned(), value)
}

fn text_of(text: &str) -> Result<StringMatch, String> {
    if text.len() > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err(format!(
            "{} has control characters, which no request has there",
            shown(text)
        ));
    }
    pattern(text, "")
}
