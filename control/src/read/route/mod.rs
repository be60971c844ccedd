//! `gateway.networking.k8s.io` HTTPRoute and GRPCRoute with Services as parents (GAMMA).
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/> and <https://gateway-api.sigs.k8s.io/mesh/>

mod filter;
pub(super) mod grpc;
pub(super) mod http;
mod matching;
mod re2;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::IgnoredAny;
use weft_proto::model::route::RequestMatch;

use self::filter::{Filter, HeaderModifier};
use super::duration;
use super::findings::Findings;
use super::names::{check_label, shown};
use crate::object::{BackendRef, Route, RouteBackend, RouteParent, RouteRule};

/// As many as the Gateway API allows.
const MAX_RULES: usize = 16;
const MAX_MATCHES: usize = 64;

/// A route of either kind, which differ by their rules.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Manifest<R> {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub(super) metadata: ObjectMeta,
    spec: Spec<R>,
    #[serde(default, rename = "status")]
    _status: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec<R> {
    #[serde(default)]
    parent_refs: Vec<ParentRef>,
    #[serde(default)]
    hostnames: Vec<String>,
    #[serde(default = "Vec::new")]
    rules: Vec<R>,
}

/// One rule of a route.
pub(super) trait Rule {
    /// What it says; `field` is its place in the object, for messages.
    fn read(&self, namespace: &str, field: &str, findings: &mut Findings) -> RouteRule;
}

/// What a route says, as far as it can be used.
pub(super) fn read<R: Rule>(
    manifest: &Manifest<R>,
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
        parents: parents(&spec.parent_refs, namespace, findings),
        rules: rules
            .map(|(i, rule)| rule.read(namespace, &format!("spec.rules[{i}]"), findings))
            .collect(),
    }
}

/// What the match of a rule matches; `None`, and why, if it cannot be used.
trait Match: Default {
    fn read(&self, field: &str, findings: &mut Findings) -> Option<RequestMatch>;
}

/// One that cannot be used is left out; a rule must not match more than its author wrote.
fn matches<M: Match>(list: &[M], rule: &str, findings: &mut Findings) -> Vec<RequestMatch> {
    if list.is_empty() {
        let everything = M::default();
        return everything.read(rule, findings).into_iter().collect();
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
        .filter_map(|(i, m)| m.read(&format!("{rule}.matches[{i}]"), findings))
        .collect()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ParentRef {
    #[serde(default = "gateway_group")]
    group: String,
    #[serde(default = "gateway_kind")]
    kind: String,
    namespace: Option<String>,
    name: String,
    section_name: Option<String>,
    port: Option<u16>,
}

fn gateway_group() -> String {
    "gateway.networking.k8s.io".to_owned()
}

fn gateway_kind() -> String {
    "Gateway".to_owned()
}

/// Reference to a service port; with `filters` and `weight` a share of a rule.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TargetRef {
    #[serde(default)]
    group: String,
    #[serde(default = "service_kind")]
    kind: String,
    name: String,
    namespace: Option<String>,
    port: Option<u16>,
    #[serde(default = "one")]
    weight: u32,
    #[serde(default)]
    filters: Vec<Filter>,
}

fn service_kind() -> String {
    "Service".to_owned()
}

const fn one() -> u32 {
    1
}

/// The services among the parents. Gateways are somebody else's.
fn parents(refs: &[ParentRef], namespace: &str, findings: &mut Findings) -> Vec<RouteParent> {
    let mut parents = Vec::new();
    for (i, parent) in refs.iter().enumerate() {
        let field = format!("spec.parentRefs[{i}]");
        if !matches!(parent.group.as_str(), "" | "core") || parent.kind != "Service" {
            findings.warn(
                format!("{field}.kind"),
                format!(
                    "{} is not Service: Weft runs no gateway, and this reference is without effect",
                    shown(&parent.kind)
                ),
            );
        } else if let Err(message) = check_label(&parent.name) {
            findings.invalid(format!("{field}.name"), message);
        } else if parent.namespace.as_deref().is_some_and(|n| n != namespace) {
            findings.unsupported(
                format!("{field}.namespace"),
                "routes of a consumer, for a service of another namespace, are not in this version: this reference is without effect",
            );
        } else if parent.section_name.is_some() {
            findings.unsupported(
                format!("{field}.sectionName"),
                "a port is chosen by its number: use port; this reference is without effect",
            );
        } else {
            parents.push(RouteParent {
                field,
                service: Arc::from(parent.name.as_str()),
                port: parent.port,
            });
        }
    }
    parents
}

/// The service port that is meant; `None`, and why, if it can be none of ours.
fn target(
    target: &TargetRef,
    namespace: &str,
    field: &str,
    findings: &mut Findings,
) -> Option<BackendRef> {
    if !matches!(target.group.as_str(), "" | "core") || target.kind != "Service" {
        findings.unsupported(
            format!("{field}.kind"),
            format!(
                "{} is not Service: its share of requests is answered with 500",
                shown(&target.kind)
            ),
        );
        return None;
    }
    if target.namespace.as_deref().is_some_and(|n| n != namespace) {
        findings.unsupported(
            format!("{field}.namespace"),
            "is another namespace, which needs a ReferenceGrant, and this version reads none: its share of requests is answered with 500",
        );
        return None;
    }
    let Some(port) = target.port else {
        findings.invalid(
            format!("{field}.port"),
            "is missing: a Service is referred to with a port",
        );
        return None;
    };
    if let Err(message) = check_label(&target.name) {
        findings.invalid(format!("{field}.name"), message);
        return None;
    }
    Some(BackendRef {
        field: field.to_owned(),
        service: Arc::from(target.name.as_str()),
        port,
    })
}

fn backends(
    refs: &[TargetRef],
    namespace: &str,
    rule: &str,
    findings: &mut Findings,
) -> Vec<RouteBackend> {
    let backend = |(i, one): (usize, &TargetRef)| {
        let field = format!("{rule}.backendRefs[{i}]");
        let mut modifier = HeaderModifier::default();
        let mut usable = true;
        for (k, filter) in one.filters.iter().enumerate() {
            let field = format!("{field}.filters[{k}]");
            usable &= filter.add_headers(&field, &mut modifier, findings);
        }
        let found = target(one, namespace, &field, findings);
        RouteBackend {
            target: found.filter(|_| usable),
            weight: one.weight.min(1_000_000),
            request_headers: modifier.request,
            response_headers: modifier.response,
        }
    };
    refs.iter().enumerate().map(backend).collect()
}

/// A duration of GEP-2257, of which "0s" switches the limit off.
fn limit(text: Option<&String>, field: &str, findings: &mut Findings) -> Option<Duration> {
    let text = text?;
    if matches!(text.as_str(), "0s" | "0ms" | "0m" | "0h" | "0") {
        return None;
    }
    let found = duration::parse(text);
    if found.is_none() {
        findings.invalid(
            field,
            format!(
                "{} is not a duration: write it like \"500ms\", \"1s\" or \"1m\"",
                shown(text)
            ),
        );
    }
    found
}
