//! HTTPRoute.

use serde::Deserialize;
use weft_proto::model::route::{PathMatch, RequestMatch, Retry};

use super::TargetRef;
use super::filter::{self, Filter};
use super::matching::{self, NamedValue};
use crate::object::{PathRewrite, RouteRule, RuleAction, RuleForward};
use crate::read::findings::Findings;
use crate::read::names::shown;

#[derive(Debug, Default, Deserialize)]
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

impl super::Rule for Rule {
    fn read(&self, namespace: &str, field: &str, findings: &mut Findings) -> RouteRule {
        let filters = filter::read(&self.filters, namespace, field, findings);
        let matches = super::matches(&self.matches, field, findings);
        let mut failed = filters.unusable;
        let replaces_prefix =
            |path: &Option<PathRewrite>| matches!(path, Some(PathRewrite::Prefix(_)));
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
        if filters.redirect.is_some() && (!self.backend_refs.is_empty() || filters.path.is_some()) {
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
            RuleAction::Forward(RuleForward {
                host: filters.host,
                path: filters.path,
                mirrors: filters.mirrors,
                ..self.forward(namespace, field, findings)
            })
        };
        RouteRule {
            matches,
            request_headers: filters.headers.request,
            response_headers: filters.headers.response,
            action,
        }
    }
}

impl Rule {
    /// What it says beside its filters.
    fn forward(&self, namespace: &str, field: &str, findings: &mut Findings) -> RuleForward {
        let timeouts = self.timeouts.as_ref();
        let mut limit = |text: Option<&String>, name: &str| {
            super::limit(text, &format!("{field}.timeouts.{name}"), findings)
        };
        let timeout = limit(timeouts.and_then(|t| t.request.as_ref()), "request");
        let attempt_timeout = limit(
            timeouts.and_then(|t| t.backend_request.as_ref()),
            "backendRequest",
        );
        RuleForward {
            backends: super::backends(&self.backend_refs, namespace, field, findings),
            timeout,
            attempt_timeout,
            retry: self.retry.as_ref().map(|r| retry(r, field, findings)),
            ..RuleForward::default()
        }
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

impl super::Match for Match {
    fn read(&self, field: &str, findings: &mut Findings) -> Option<RequestMatch> {
        let path = match &self.path {
            None => PathMatch::Prefix(root()),
            Some(path) => path_match(path, &format!("{field}.path.value"), findings)?,
        };
        if let Some(method) = &self.method
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
            method: self.method.clone(),
            headers: matching::values(&self.headers, &format!("{field}.headers"), true, findings)?,
            query: matching::values(
                &self.query_params,
                &format!("{field}.queryParams"),
                false,
                findings,
            )?,
        })
    }
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
