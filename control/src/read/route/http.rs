//! HTTPRoute.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use weft_proto::model::route::{PathMatch, RequestMatch, Retry};

use super::filter::{self, Filter};
use super::matching::{self, NamedValue};
use super::{MAX_MATCHES, MAX_RULES, ParentRef, TargetRef};
use crate::object::{PathRewrite, Route, RouteRule, RuleAction, RuleForward};
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

#[derive(Debug, Default, Deserialize)]
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
    timeouts: Option<Timeouts>,
    retry: Option<RetrySpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Match {
    path: Option<PathSpec>,
    method: Option<String>,
    #[serde(default)]
    headers: Vec<NamedValue>,
    #[serde(default)]
    query_params: Vec<NamedValue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathSpec {
    #[serde(default, rename = "type")]
    kind: PathKind,
    #[serde(default = "root")]
    value: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum PathKind {
    Exact,
    #[default]
    PathPrefix,
    RegularExpression,
}

fn root() -> String {
    "/".to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Timeouts {
    request: Option<String>,
    backend_request: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetrySpec {
    #[serde(default)]
    codes: Vec<u16>,
    attempts: Option<u32>,
    backoff: Option<String>,
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
    // Without rules everything goes where it would go anyway; the Gateway API makes it one empty rule.
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
    let matches = matches(&rule.matches, field, findings);
    let mut failed = filters.unusable;
    let replaces_prefix = |path: &Option<PathRewrite>| matches!(path, Some(PathRewrite::Prefix(_)));
    let redirected = filters
        .redirect
        .as_ref()
        .is_some_and(|r| replaces_prefix(&r.path));
    if (redirected || replaces_prefix(&filters.path))
        && !matches
            .iter()
            .all(|m| matches!(m.path, PathMatch::Prefix(_)))
    {
        findings.invalid(
            format!("{field}.filters"),
            "ReplacePrefixMatch needs matches of type PathPrefix in the whole rule",
        );
        failed = true;
    }
    if filters.redirect.is_some() && (!rule.backend_refs.is_empty() || filters.path.is_some()) {
        findings.invalid(
            format!("{field}.filters"),
            "a redirect goes to no backend and rewrites nothing: remove backendRefs and URLRewrite, or the redirect",
        );
        failed = true;
    }
    let action = if failed {
        RuleAction::Fail
    } else if let Some(redirect) = filters.redirect {
        RuleAction::Redirect(redirect)
    } else {
        let timeouts = rule.timeouts.as_ref();
        let limit = |text: Option<&String>, name: &str, findings: &mut Findings| {
            super::limit(text, &format!("{field}.timeouts.{name}"), findings)
        };
        RuleAction::Forward(RuleForward {
            backends: super::backends(&rule.backend_refs, namespace, field, findings),
            host: filters.host,
            path: filters.path,
            mirrors: filters.mirrors,
            timeout: limit(
                timeouts.and_then(|t| t.request.as_ref()),
                "request",
                findings,
            ),
            attempt_timeout: limit(
                timeouts.and_then(|t| t.backend_request.as_ref()),
                "backendRequest",
                findings,
            ),
            retry: rule.retry.as_ref().map(|r| retry(r, field, findings)),
        })
    };
    RouteRule {
        matches,
        request_headers: filters.headers.request,
        response_headers: filters.headers.response,
        action,
    }
}

fn retry(spec: &RetrySpec, field: &str, findings: &mut Findings) -> Retry {
    let good = |code: &u16| (400..=599).contains(code);
    if !spec.codes.iter().all(good) {
        findings.invalid(
            format!("{field}.retry.codes"),
            "has one that is not in 400 to 599",
        );
    }
    Retry {
        codes: spec.codes.iter().copied().filter(good).collect(),
        attempts: spec.attempts.unwrap_or(1).min(100),
        backoff: super::limit(
            spec.backoff.as_ref(),
            &format!("{field}.retry.backoff"),
            findings,
        ),
    }
}

/// One that cannot be used is left out; a rule must not match more than its author wrote.
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
    let path = match &spec.path {
        None => PathMatch::Prefix(root()),
        Some(path) => path_match(path, &format!("{field}.path.value"), findings)?,
    };
    if let Some(method) = &spec.method
        && !METHODS.contains(&method.as_str())
    {
        findings.invalid(
            format!("{field}.method"),
            format!("{} is not an HTTP method", shown(method)),
        );
        return None;
    }
    Some(RequestMatch {
        path,
        method: spec.method.clone(),
        headers: matching::values(&spec.headers, &format!("{field}.headers"), true, findings)?,
        query: matching::values(
            &spec.query_params,
            &format!("{field}.queryParams"),
            false,
            findings,
        )?,
    })
}

const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

fn path_match(spec: &PathSpec, field: &str, findings: &mut Findings) -> Option<PathMatch> {
    let value = &spec.value;
    if matches!(spec.kind, PathKind::RegularExpression) {
        return matching::regex(value, field, findings).map(PathMatch::Regex);
    }
    if !value.starts_with('/')
        || value.contains(['?', '#'])
        || value.contains("//")
        || value.len() > 1024
    {
        findings.invalid(
            field,
            format!("{} is not a path that begins with \"/\"", shown(value)),
        );
        return None;
    }
    Some(match spec.kind {
        PathKind::Exact => PathMatch::Exact(value.clone()),
        _ if value == "/" => PathMatch::Prefix(root()),
        // "/a/" and "/a" are the same prefix.
        _ => PathMatch::Prefix(value.trim_end_matches('/').to_owned()),
    })
}
