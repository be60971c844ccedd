//! `envoy.config.route.v3.RouteConfiguration`.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route.proto>.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::{
    HeaderValue, HeaderValueOption, RuntimeFractionalPercent,
};
use envoy_types::pb::envoy::config::route::v3::route_action::{
    ClusterNotFoundResponseCode, ClusterSpecifier, HostRewriteSpecifier, RequestMirrorPolicy,
};
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::weighted_cluster::ClusterWeight;
use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, HeaderMatcher, QueryParameterMatcher, RedirectAction, RetryPolicy,
    Route as PbRoute, RouteAction as PbAction, RouteConfiguration, RouteMatch, VirtualHost,
    WeightedCluster,
    header_matcher::HeaderMatchSpecifier,
    query_parameter_matcher::QueryParameterMatchSpecifier,
    redirect_action::{PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier},
    retry_policy::RetryBackOff,
    route::Action,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};
use envoy_types::pb::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType};

use envoy_types::pb::google::protobuf::{BoolValue, UInt32Value};

use super::{duration, policy};
use crate::model::policy::StringMatch;
use crate::model::route::{
    Forward, HeaderChanges, Mirror, PathChange, PathMatch, Redirect, RequestMatch, Retry, Route,
    RouteAction, RouteTable, Target,
};

/// No cluster has this name: what is sent there is answered with 500.
const NOWHERE: &str = "weft.unresolved";

/// The resource for `table`.
#[must_use]
pub fn encode_routes(table: &RouteTable) -> RouteConfiguration {
    RouteConfiguration {
        name: table.name.clone(),
        virtual_hosts: vec![VirtualHost {
            name: table.name.clone(),
            // Whom the client called is settled: it connected to this service.
            domains: vec!["*".to_owned()],
            routes: table.routes.iter().map(route).collect(),
            ..Default::default()
        }],
        // A service that is still to come is answered with an error, and does not keep the others from changing.
        validate_clusters: Some(BoolValue { value: false }),
        ..Default::default()
    }
}

fn route(route: &Route) -> PbRoute {
    PbRoute {
        name: route.name.clone(),
        r#match: Some(request_match(&route.matching)),
        request_headers_to_add: added(&route.request_headers),
        request_headers_to_remove: route.request_headers.remove.clone(),
        response_headers_to_add: added(&route.response_headers),
        response_headers_to_remove: route.response_headers.remove.clone(),
        action: Some(match &route.action {
            RouteAction::Forward(to) => Action::Route(forward(to)),
            RouteAction::Redirect(to) => Action::Redirect(redirect(to)),
            RouteAction::Respond(status) => Action::DirectResponse(DirectResponseAction {
                status: (*status).into(),
                ..Default::default()
            }),
        }),
        ..Default::default()
    }
}

fn request_match(matching: &RequestMatch) -> RouteMatch {
    let method = matching.method.as_deref().map(|method| HeaderMatcher {
        name: ":method".to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(policy::encode_string(
            &StringMatch::exactly(method),
        ))),
        ..Default::default()
    });
    let headers = matching.headers.iter().map(|(name, value)| HeaderMatcher {
        name: name.clone(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(policy::encode_string(
            value,
        ))),
        ..Default::default()
    });
    let query = matching
        .query
        .iter()
        .map(|(name, value)| QueryParameterMatcher {
            name: name.clone(),
            query_parameter_match_specifier: Some(QueryParameterMatchSpecifier::StringMatch(
                policy::encode_string(value),
            )),
        });
    RouteMatch {
        path_specifier: Some(match &matching.path {
            PathMatch::Exact(path) => PathSpecifier::Path(path.clone()),
            PathMatch::Prefix(path) if path == "/" => PathSpecifier::Prefix(path.clone()),
            PathMatch::Prefix(path) => PathSpecifier::PathSeparatedPrefix(path.clone()),
            PathMatch::Regex(regex) => PathSpecifier::SafeRegex(regex_matcher(regex)),
        }),
        headers: method.into_iter().chain(headers).collect(),
        query_parameters: query.collect(),
        ..Default::default()
    }
}

fn regex_matcher(regex: &str) -> RegexMatcher {
    RegexMatcher {
        regex: regex.to_owned(),
        ..Default::default()
    }
}

fn forward(to: &Forward) -> PbAction {
    let mut action = PbAction {
        cluster_not_found_response_code: ClusterNotFoundResponseCode::InternalServerError as i32,
        cluster_specifier: Some(cluster_specifier(&to.targets)),
        host_rewrite_specifier: to
            .host
            .clone()
            .map(HostRewriteSpecifier::HostRewriteLiteral),
        // Envoy's own default is 15 s; 0 is none.
        timeout: duration::encode(Some(to.timeout.unwrap_or(Duration::ZERO))),
        request_mirror_policies: to.mirrors.iter().map(mirror).collect(),
        retry_policy: retry(to),
        ..Default::default()
    };
    match to.path.as_ref().map(path_change) {
        None => {}
        Some(Changed::Prefix(prefix)) => action.prefix_rewrite = prefix,
        Some(Changed::Regex(change)) => action.regex_rewrite = Some(change),
    }
    action
}

fn cluster_specifier(targets: &[Target]) -> ClusterSpecifier {
    let name = |target: &Target| target.cluster.clone().unwrap_or_else(|| NOWHERE.to_owned());
    let weight = |target: &Target| ClusterWeight {
        name: name(target),
        weight: Some(UInt32Value {
            value: target.weight,
        }),
        request_headers_to_add: added(&target.request_headers),
        request_headers_to_remove: target.request_headers.remove.clone(),
        response_headers_to_add: added(&target.response_headers),
        response_headers_to_remove: target.response_headers.remove.clone(),
        ..Default::default()
    };
    ClusterSpecifier::WeightedClusters(WeightedCluster {
        clusters: targets.iter().map(weight).collect(),
        ..Default::default()
    })
}

enum Changed {
    Prefix(String),
    Regex(RegexMatchAndSubstitute),
}

fn path_change(change: &PathChange) -> Changed {
    let substitute = |pattern: String, by: &str| {
        Changed::Regex(RegexMatchAndSubstitute {
            pattern: Some(regex_matcher(&pattern)),
            // The only character that means something there.
            substitution: by.replace('\\', "\\\\"),
        })
    };
    match change {
        // The query is no part of what is substituted.
        PathChange::Full(path) => substitute("^[^?]*".to_owned(), path),
        PathChange::Prefix {
            matched,
            replacement,
        } => {
            let (matched, by) = (matched.trim_end_matches('/'), replacement.as_str());
            let by = by.trim_end_matches('/');
            if by.is_empty() {
                // "/a" in place of which comes "/": what follows has a slash of its own, or there is none.
                return substitute(format!("^{}/*", regex::escape(matched)), "/");
            }
            if matched.is_empty() {
                return substitute("^/*".to_owned(), &format!("{by}/"));
            }
            Changed::Prefix(by.to_owned())
        }
    }
}

fn mirror(mirror: &Mirror) -> RequestMirrorPolicy {
    RequestMirrorPolicy {
        cluster: mirror.cluster.clone(),
        runtime_fraction: Some(RuntimeFractionalPercent {
            default_value: Some(FractionalPercent {
                numerator: mirror.millionths,
                denominator: DenominatorType::Million as i32,
            }),
            ..Default::default()
        }),
        disable_shadow_host_suffix_append: true,
        ..Default::default()
    }
}

/// Of a limit for each attempt without retries there is one attempt.
fn retry(to: &Forward) -> Option<RetryPolicy> {
    if to.retry.is_none() && to.attempt_timeout.is_none() {
        return None;
    }
    let none = Retry {
        codes: Vec::new(),
        attempts: 0,
        backoff: None,
    };
    let retry = to.retry.as_ref().unwrap_or(&none);
    let mut on = vec!["connect-failure", "refused-stream"];
    if !retry.codes.is_empty() {
        on.push("retriable-status-codes");
    }
    Some(RetryPolicy {
        retry_on: if to.retry.is_some() {
            on.join(",")
        } else {
            String::new()
        },
        num_retries: Some(UInt32Value {
            value: retry.attempts,
        }),
        per_try_timeout: duration::encode(to.attempt_timeout),
        retriable_status_codes: retry.codes.iter().map(|c| (*c).into()).collect(),
        retry_back_off: retry.backoff.map(|pause| RetryBackOff {
            base_interval: duration::encode(Some(pause)),
            max_interval: duration::encode(Some(pause.saturating_mul(10))),
        }),
        ..Default::default()
    })
}

fn redirect(to: &Redirect) -> RedirectAction {
    RedirectAction {
        host_redirect: to.host.clone().unwrap_or_default(),
        port_redirect: to.port.unwrap_or(0).into(),
        response_code: match to.status {
            301 => RedirectResponseCode::MovedPermanently,
            303 => RedirectResponseCode::SeeOther,
            307 => RedirectResponseCode::TemporaryRedirect,
            308 => RedirectResponseCode::PermanentRedirect,
            _ => RedirectResponseCode::Found,
        } as i32,
        scheme_rewrite_specifier: to
            .scheme
            .clone()
            .map(SchemeRewriteSpecifier::SchemeRedirect),
        path_rewrite_specifier: to.path.as_ref().map(|change| match change {
            PathChange::Full(path) => PathRewriteSpecifier::PathRedirect(path.clone()),
            prefix @ PathChange::Prefix { .. } => match path_change(prefix) {
                Changed::Prefix(by) => PathRewriteSpecifier::PrefixRewrite(by),
                Changed::Regex(change) => PathRewriteSpecifier::RegexRewrite(change),
            },
        }),
        ..Default::default()
    }
}

fn added(changes: &HeaderChanges) -> Vec<HeaderValueOption> {
    let option = |(name, value): &(String, String), action: HeaderAppendAction| HeaderValueOption {
        header: Some(HeaderValue {
            key: name.clone(),
            // "%" begins a command of Envoy's.
            value: value.replace('%', "%%"),
            ..Default::default()
        }),
        append_action: action as i32,
        keep_empty_value: true,
        ..Default::default()
    };
    let set = changes.set.iter();
    let add = changes.add.iter();
    set.map(|h| option(h, HeaderAppendAction::OverwriteIfExistsOrAdd))
        .chain(add.map(|h| option(h, HeaderAppendAction::AppendIfExistsOrAdd)))
        .collect()
}
