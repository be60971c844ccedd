//! What rules do to requests besides sending them on.

use serde::Deserialize;
use weft_proto::model::route::HeaderChanges;

use super::TargetRef;
use super::matching::is_token;
use crate::object::{BackendRef, PathRewrite, RuleRedirect};
use crate::read::findings::Findings;
use crate::read::names::shown;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Filter {
    #[serde(rename = "type")]
    kind: String,
    request_header_modifier: Option<Headers>,
    response_header_modifier: Option<Headers>,
    request_redirect: Option<RedirectSpec>,
    url_rewrite: Option<RewriteSpec>,
    request_mirror: Option<MirrorSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Headers {
    #[serde(default)]
    set: Vec<Header>,
    #[serde(default)]
    add: Vec<Header>,
    #[serde(default)]
    remove: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    name: String,
    value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RedirectSpec {
    scheme: Option<String>,
    hostname: Option<String>,
    path: Option<PathSpec>,
    port: Option<u16>,
    status_code: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RewriteSpec {
    hostname: Option<String>,
    path: Option<PathSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PathSpec {
    #[serde(rename = "type")]
    kind: String,
    replace_full_path: Option<String>,
    replace_prefix_match: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MirrorSpec {
    backend_ref: TargetRef,
    percent: Option<u32>,
    fraction: Option<Fraction>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fraction {
    numerator: u32,
    #[serde(default = "hundred")]
    denominator: u32,
}

const fn hundred() -> u32 {
    100
}

/// What the header filters of a rule or a backend add up to.
#[derive(Debug, Default)]
pub(super) struct HeaderModifier {
    pub(super) request: HeaderChanges,
    pub(super) response: HeaderChanges,
}

/// What all filters of a rule add up to.
#[derive(Debug, Default)]
pub(super) struct Filters {
    pub(super) headers: HeaderModifier,
    pub(super) redirect: Option<RuleRedirect>,
    pub(super) host: Option<String>,
    pub(super) path: Option<PathRewrite>,
    pub(super) mirrors: Vec<(BackendRef, u32)>,
    /// One cannot be done: the rule must not be carried out without it.
    pub(super) unusable: bool,
}

impl Filter {
    /// Takes a filter of headers in; false if it is another, or cannot be used.
    pub(super) fn add_headers(
        &self,
        field: &str,
        to: &mut HeaderModifier,
        findings: &mut Findings,
    ) -> bool {
        match (
            self.kind.as_str(),
            &self.request_header_modifier,
            &self.response_header_modifier,
        ) {
            ("RequestHeaderModifier", Some(changes), _) => {
                let field = format!("{field}.requestHeaderModifier");
                changes.add_to(&mut to.request, &field, findings)
            }
            ("ResponseHeaderModifier", _, Some(changes)) => {
                let field = format!("{field}.responseHeaderModifier");
                changes.add_to(&mut to.response, &field, findings)
            }
            (kind, _, _) => {
                findings.unsupported(
                    format!("{field}.type"),
                    format!(
                        "{} cannot be done here: what it is for is answered with 500",
                        shown(kind)
                    ),
                );
                false
            }
        }
    }
}

/// Takes all filters of a rule in.
pub(super) fn read(
    filters: &[Filter],
    namespace: &str,
    rule: &str,
    findings: &mut Findings,
) -> Filters {
    let mut found = Filters::default();
    for (i, filter) in filters.iter().enumerate() {
        let field = format!("{rule}.filters[{i}]");
        let usable = match filter.kind.as_str() {
            "RequestRedirect" => filter.request_redirect.as_ref().and_then(|spec| {
                found.redirect = Some(spec.read(&format!("{field}.requestRedirect"), findings)?);
                Some(())
            }),
            "URLRewrite" => filter.url_rewrite.as_ref().and_then(|spec| {
                found.host.clone_from(&spec.hostname);
                if let Some(path) = &spec.path {
                    found.path = Some(path.read(&format!("{field}.urlRewrite.path"), findings)?);
                }
                Some(())
            }),
            "RequestMirror" => filter.request_mirror.as_ref().and_then(|spec| {
                let field = format!("{field}.requestMirror");
                found.mirrors.push(spec.read(namespace, &field, findings)?);
                Some(())
            }),
            _ => filter
                .add_headers(&field, &mut found.headers, findings)
                .then_some(()),
        };
        if usable.is_none() {
            found.unusable = true;
        }
    }
    found
}

impl Headers {
    fn add_to(&self, to: &mut HeaderChanges, field: &str, findings: &mut Findings) -> bool {
        let pairs = |list: &[Header]| -> Vec<(String, String)> {
            let pair = |h: &Header| (h.name.clone(), h.value.clone());
            list.iter().map(pair).collect()
        };
        let named = self.set.iter().chain(&self.add);
        let values = named.clone().map(|h| &h.value);
        let names = named.map(|h| &h.name).chain(&self.remove);
        for name in names {
            // Pseudo-headers and Host are the request's address, not headers.
            if !is_token(name) || name.eq_ignore_ascii_case("host") {
                findings.invalid(
                    field,
                    format!("{} is not a header that can be changed", shown(name)),
                );
                return false;
            }
        }
        for value in values {
            if value.bytes().any(|b| b < 0x20 && b != b'\t' || b == 0x7f) {
                findings.invalid(field, format!("{} cannot stand in a header", shown(value)));
                return false;
            }
        }
        to.set.extend(pairs(&self.set));
        to.add.extend(pairs(&self.add));
        to.remove.extend(self.remove.iter().cloned());
        true
    }
}

impl RedirectSpec {
    fn read(&self, field: &str, findings: &mut Findings) -> Option<RuleRedirect> {
        let status = self.status_code.unwrap_or(302);
        if !matches!(status, 301 | 302 | 303 | 307 | 308) {
            findings.invalid(
                format!("{field}.statusCode"),
                format!("{status} is not 301, 302, 303, 307 or 308"),
            );
            return None;
        }
        if self
            .scheme
            .as_deref()
            .is_some_and(|s| s != "http" && s != "https")
        {
            findings.invalid(format!("{field}.scheme"), "is not http or https");
            return None;
        }
        let path = match &self.path {
            Some(path) => Some(path.read(&format!("{field}.path"), findings)?),
            None => None,
        };
        Some(RuleRedirect {
            scheme: self.scheme.clone(),
            host: self.hostname.clone(),
            port: self.port,
            path,
            status,
        })
    }
}

impl PathSpec {
    fn read(&self, field: &str, findings: &mut Findings) -> Option<PathRewrite> {
        let rewrite = match (
            self.kind.as_str(),
            &self.replace_full_path,
            &self.replace_prefix_match,
        ) {
            ("ReplaceFullPath", Some(path), None) => PathRewrite::Full(path.clone()),
            ("ReplacePrefixMatch", None, Some(prefix)) => PathRewrite::Prefix(prefix.clone()),
            (kind, ..) => {
                findings.invalid(
                    format!("{field}.type"),
                    format!(
                        "{} is not ReplaceFullPath or ReplacePrefixMatch with its own field",
                        shown(kind)
                    ),
                );
                return None;
            }
        };
        let (PathRewrite::Full(path) | PathRewrite::Prefix(path)) = &rewrite;
        if path.contains(['?', '#', '\r', '\n', '\0']) || path.len() > 1024 {
            findings.invalid(field, format!("{} is not a path", shown(path)));
            return None;
        }
        Some(rewrite)
    }
}

impl MirrorSpec {
    fn read(
        &self,
        namespace: &str,
        field: &str,
        findings: &mut Findings,
    ) -> Option<(BackendRef, u32)> {
        let millionths = match (&self.percent, &self.fraction) {
            (None, None) => 1_000_000,
            (Some(percent @ 0..=100), None) => percent * 10_000,
            (None, Some(f)) if f.denominator > 0 && f.numerator <= f.denominator => {
                let share = u64::from(f.numerator) * 1_000_000 / u64::from(f.denominator);
                u32::try_from(share).unwrap_or(1_000_000)
            }
            _ => {
                findings.invalid(
                    field,
                    "percent (0 to 100) or fraction (at most 1), not both",
                );
                return None;
            }
        };
        let field = format!("{field}.backendRef");
        let target = super::target(&self.backend_ref, namespace, &field, findings)?;
        Some((target, millionths))
    }
}
