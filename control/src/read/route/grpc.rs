//! GRPCRoute.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use weft_proto::model::route::{PathMatch, RequestMatch};

use super::filter::{self, Filter};
use super::matching::{self, Comparison, NamedValue};
use super::{MAX_MATCHES, MAX_RULES, ParentRef, TargetRef};
use crate::object::{Route, RouteRule, RuleAction, RuleForward};
use crate::read::findings::Findings;
use crate::read::names::shown;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::read) struct Manifest {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub(in crate::read) metadata: ObjectMeta,
    spec: Spec,
    #[serde(default, rename = "status")]
    _status: serde::de::IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    #[serde(default)]
    parent_refs: Vec<ParentRef>,
    #[serde(default)]
    hostnames: Vec<String>,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
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

pub(in crate::read) fn read(
    manifest: &Manifest,
    namespace: &str,
    findings: &mut Findings,
) -> Route {
    let spec = &manifest.spec;
    if !spec.hostnames.is_empty() {
        findings.warn(
            "spec.hostnames",
            "is not looked at where the parent is a Service: all requests to it are routed",
        );
    }
    if spec.rules.len() > MAX_RULES {
        findings.invalid("spec.rules", format!("has more than {MAX_RULES} rules"));
    }
    let rules = spec.rules.iter().take(MAX_RULES).enumerate();
    Route {
        parents: super::parents(&spec.parent_refs, namespace, findings),
        rules: rules
            .map(|(i, r)| rule(r, namespace, &format!("spec.rules[{i}]"), findings))
            .collect(),
    }
}

fn rule(rule: &Rule, namespace: &str, field: &str, findings: &mut Findings) -> RouteRule {
    let filters = filter::read(&rule.filters, namespace, field, findings);
    let foreign = filters.redirect.is_some() || filters.host.is_some() || filters.path.is_some();
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
            backends: super::backends(&rule.backend_refs, namespace, field, findings),
            mirrors: filters.mirrors,
            ..RuleForward::default()
        })
    };
    RouteRule {
        matches: matches(&rule.matches, field, findings),
        request_headers: filters.headers.request,
        response_headers: filters.headers.response,
        action,
    }
}

fn matches(list: &[Match], rule: &str, findings: &mut Findings) -> Vec<RequestMatch> {
    if list.is_empty() {
        let everything = Match::default();
        return one_match(&everything, rule, findings).into_iter().collect();
    }
    if list.len() > MAX_MATCHES {
        findings.invalid(
            format!("{rule}.matches"),
            format!("has more than {MAX_MATCHES}"),
        );
    }
    list.iter()
        .take(MAX_MATCHES)
        .enumerate()
        .filter_map(|(i, m)| one_match(m, &format!("{rule}.matches[{i}]"), findings))
        .collect()
}

fn one_match(spec: &Match, field: &str, findings: &mut Findings) -> Option<RequestMatch> {
    let path = match &spec.method {
        None => PathMatch::Prefix("/".to_owned()),
        Some(method) => path(method, &format!("{field}.method"), findings)?,
    };
    Some(RequestMatch {
        path,
        method: None,
        headers: matching::values(&spec.headers, &format!("{field}.headers"), true, findings)?,
        query: Vec::new(),
    })
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
