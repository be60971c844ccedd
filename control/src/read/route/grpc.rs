//! GRPCRoute.

use serde::Deserialize;
use weft_proto::model::route::{PathMatch, RequestMatch};

use super::TargetRef;
use super::filter::{self, Filter};
use super::matching::{self, Comparison, NamedValue};
use crate::object::{RouteRule, RuleAction, RuleForward};
use crate::read::findings::Findings;
use crate::read::names::shown;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::read) struct Rule {
    #[serde(default, rename = "name")]
    _name: String,
    #[serde(default)]
    matches: Vec<Match>,
    #[serde(default)]
    filters: Vec<Filter>,
    #[serde(default)]
    backend_refs: Vec<TargetRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Match {
    method: Option<Method>,
    #[serde(default)]
    headers: Vec<NamedValue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Method {
    #[serde(default, rename = "type")]
    comparison: Comparison,
    service: Option<String>,
    method: Option<String>,
}

impl super::Rule for Rule {
    fn read(&self, namespace: &str, field: &str, findings: &mut Findings) -> RouteRule {
        let filters = filter::read(&self.filters, namespace, field, findings);
        let foreign =
            filters.redirect.is_some() || filters.host.is_some() || filters.path.is_some();
        if foreign {
            findings.invalid(
                format!("{field}.filters"),
                "GRPCRoute knows no redirects and rewrites: use HTTPRoute",
            );
        }
        let action = if foreign || filters.unusable {
            RuleAction::Fail
        } else {
            RuleAction::Forward(RuleForward {
                backends: super::backends(&self.backend_refs, namespace, field, findings),
                mirrors: filters.mirrors,
                ..RuleForward::default()
            })
        };
        RouteRule {
            matches: super::matches(&self.matches, field, findings),
            request_headers: filters.headers.request,
            response_headers: filters.headers.response,
            action,
        }
    }
}

impl super::Match for Match {
    fn read(&self, field: &str, findings: &mut Findings) -> Option<RequestMatch> {
        let path = match &self.method {
            None => PathMatch::Prefix("/".to_owned()),
            Some(method) => path(method, &format!("{field}.method"), findings)?,
        };
        Some(RequestMatch {
            path,
            method: None,
            headers: matching::values(&self.headers, &format!("{field}.headers"), true, findings)?,
            query: Vec::new(),
        })
    }
}

/// A gRPC method is the path `/SERVICE/METHOD` of a request.
fn path(method: &Method, field: &str, findings: &mut Findings) -> Option<PathMatch> {
    let (service, name) = (method.service.as_deref(), method.method.as_deref());
    if method.comparison == Comparison::RegularExpression {
        let any = "[^/]+";
        let text = format!(
            "/(?:{})/(?:{})",
            service.unwrap_or(any),
            name.unwrap_or(any)
        );
        return matching::regex(&text, field, findings).map(PathMatch::Regex);
    }
    for part in [service, name].into_iter().flatten() {
        let is_char = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if part.is_empty() || !part.bytes().all(is_char) {
            findings.invalid(
                field,
                format!(
                    "{} is not the name of a gRPC service or method",
                    shown(part)
                ),
            );
            return None;
        }
    }
    match (service, name) {
        (Some(service), Some(name)) => Some(PathMatch::Exact(format!("/{service}/{name}"))),
        (Some(service), None) => Some(PathMatch::Prefix(format!("/{service}"))),
        (None, Some(name)) => {
            let text = format!("/[^/]+/{}", regex::escape(name));
            Some(PathMatch::Regex(text))
        }
        (None, None) => {
            findings.invalid(field, "names neither service nor method");
            None
        }
    }
}
