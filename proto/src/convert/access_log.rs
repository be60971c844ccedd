//! Has Envoy tell its agent of requests that a policy refuses, or that an audited one would.

use std::time::Duration;

use envoy_types::pb::envoy::config::accesslog::v3::{
    AccessLog, AccessLogFilter, ComparisonFilter, MetadataFilter, OrFilter, StatusCodeFilter,
    access_log::ConfigType, access_log_filter::FilterSpecifier, comparison_filter::Op,
};
use envoy_types::pb::envoy::config::core::v3::{
    GrpcService, RuntimeUInt32,
    grpc_service::{EnvoyGrpc, TargetSpecifier},
};
use envoy_types::pb::envoy::extensions::access_loggers::grpc::v3::{
    CommonGrpcAccessLogConfig, HttpGrpcAccessLogConfig,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{
    MetadataMatcher, ValueMatcher,
    metadata_matcher::{PathSegment, path_segment::Segment},
    value_matcher::MatchPattern,
};
use envoy_types::pb::google::protobuf::BoolValue;

use super::{duration, pack, policy};
use crate::model::policy::StringMatch;

/// Cluster of Envoy's bootstrap: the agent's socket.
const AGENT: &str = "weft.control";
/// Told together.
const GATHER: Duration = Duration::from_millis(200);
const REFUSED: u32 = 403;
/// What the RBAC filters write down of their shadow rules, by their prefixes.
const RBAC: &str = "envoy.filters.http.rbac";
const SHADOWS: [&str; 2] = ["deny_shadow_engine_result", "allow_shadow_engine_result"];

/// The log of requests that were answered with 403, be it by Envoy or by the pod, and of those that shadow rules match.
pub(super) fn refusals() -> AccessLog {
    let filters = [status()].into_iter().chain(SHADOWS.map(shadow));
    let filter = AccessLogFilter {
        filter_specifier: Some(FilterSpecifier::OrFilter(OrFilter {
            filters: filters.collect(),
        })),
    };
    log("weft.refusals", GATHER, Some(filter))
}

/// The log `name` of requests that pass `filter`, told at least each `gather`.
pub(super) fn log(name: &str, gather: Duration, filter: Option<AccessLogFilter>) -> AccessLog {
    let config = HttpGrpcAccessLogConfig {
        common_config: Some(CommonGrpcAccessLogConfig {
            log_name: name.to_owned(),
            transport_api_version: 2, // V3
            grpc_service: Some(GrpcService {
                target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                    cluster_name: AGENT.to_owned(),
                    ..Default::default()
                })),
                ..Default::default()
            }),
            buffer_flush_interval: duration::encode(Some(gather)),
            ..Default::default()
        }),
        ..Default::default()
    };
    AccessLog {
        name: "envoy.access_loggers.http_grpc".to_owned(),
        filter,
        config_type: Some(ConfigType::TypedConfig(pack(&config))),
    }
}

fn status() -> AccessLogFilter {
    AccessLogFilter {
        filter_specifier: Some(FilterSpecifier::StatusCodeFilter(StatusCodeFilter {
            comparison: Some(ComparisonFilter {
                op: Op::Eq as i32,
                value: Some(RuntimeUInt32 {
                    default_value: REFUSED,
                    runtime_key: "weft.refused".to_owned(),
                }),
            }),
        })),
    }
}

fn shadow(key: &str) -> AccessLogFilter {
    let denied = policy::encode_string(&StringMatch::exactly("denied"));
    AccessLogFilter {
        filter_specifier: Some(FilterSpecifier::MetadataFilter(MetadataFilter {
            matcher: Some(MetadataMatcher {
                filter: RBAC.to_owned(),
                path: vec![PathSegment {
                    segment: Some(Segment::Key(key.to_owned())),
                }],
                value: Some(ValueMatcher {
                    match_pattern: Some(MatchPattern::StringMatch(denied)),
                }),
                invert: false,
            }),
            match_if_key_not_found: Some(BoolValue { value: false }),
        })),
    }
}
