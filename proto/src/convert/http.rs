//! What the node's Envoy needs to serve a service port at layer 7.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, ConfigSource, Http1ProtocolOptions, Http2ProtocolOptions,
    HttpProtocolOptions as CommonOptions, config_source::ConfigSourceSpecifier,
};
use envoy_types::pb::envoy::extensions::filters::http::original_src::v3::OriginalSrc;
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds,
    http_connection_manager::{RouteSpecifier, ServerHeaderTransformation, UpgradeConfig},
    http_filter::ConfigType,
};
use envoy_types::pb::envoy::extensions::upstreams::http::v3::{
    HttpProtocolOptions,
    http_protocol_options::{UpstreamProtocolOptions, UseDownstreamHttpConfig},
};
use envoy_types::pb::google::protobuf::{Any, BoolValue};

use super::{duration, pack};
use crate::model::Listener;

/// Name of the filter.
pub(super) const MANAGER: &str = "envoy.filters.network.http_connection_manager";
/// Key of [`protocol_options`].
pub(super) const PROTOCOL_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// `MARK_BY_PROXY` of bpf/include/abi/proxy.h: Envoy's connections to backends.
const MARK_BY_PROXY: u32 = 0x5eed_0001;
/// A connection on which nothing is asked for so long is closed, as one at layer 4 would be forgotten in the end.
pub(super) const IDLE: Duration = Duration::from_secs(3600);
/// Kept for the next request to a backend.
const IDLE_UPSTREAM: Duration = Duration::from_secs(60);

/// The filter of a service port's listener: routes by RDS under the listener's name, backends in the name of the client.
pub(super) fn manager(listener: &Listener) -> HttpConnectionManager {
    let idle = listener.idle_timeout.unwrap_or(IDLE);
    let mut manager = manager_for(&listener.name, idle);
    manager.http_filters = vec![original_source(MARK_BY_PROXY), router()];
    if let Some(options) = &mut manager.common_http_protocol_options {
        options.max_connection_duration = duration::encode(listener.max_duration);
    }
    manager
}

/// A filter without HTTP filters whose routes come by RDS under `name`. Connections end when idle for `idle`.
pub(super) fn manager_for(name: &str, idle: Duration) -> HttpConnectionManager {
    HttpConnectionManager {
        stat_prefix: name.to_owned(),
        route_specifier: Some(RouteSpecifier::Rds(rds(name))),
        // The client is who it is, whatever it says in X-Forwarded-For: its address is Envoy's towards the backend.
        use_remote_address: Some(BoolValue { value: true }),
        skip_xff_append: true,
        generate_request_id: Some(BoolValue { value: false }),
        server_header_transformation: ServerHeaderTransformation::PassThrough as i32,
        stream_idle_timeout: duration::encode(Some(idle)),
        common_http_protocol_options: Some(CommonOptions {
            idle_timeout: duration::encode(Some(idle)),
            ..Default::default()
        }),
        upgrade_configs: vec![UpgradeConfig {
            upgrade_type: "websocket".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Routes by ADS.
pub(super) fn rds(name: &str) -> Rds {
    Rds {
        config_source: Some(ConfigSource {
            resource_api_version: 2, // V3
            config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
            ..Default::default()
        }),
        route_config_name: name.to_owned(),
    }
}

/// Has Envoy ask on from the client's address, with this mark.
pub(super) fn original_source(mark: u32) -> HttpFilter {
    filter(
        "envoy.filters.http.original_src",
        pack(&OriginalSrc { mark }),
    )
}

/// The last filter.
pub(super) fn router() -> HttpFilter {
    filter(
        "envoy.filters.http.router",
        pack(&Router {
            suppress_envoy_headers: true,
            ..Default::default()
        }),
    )
}

pub(super) fn filter(name: &str, config: Any) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(ConfigType::TypedConfig(config)),
        ..Default::default()
    }
}

/// Entry of a cluster's `typed_extension_protocol_options`: requests go on in the version in which they came.
pub(super) fn protocol_options() -> (String, Any) {
    let options = HttpProtocolOptions {
        common_http_protocol_options: Some(CommonOptions {
            idle_timeout: duration::encode(Some(IDLE_UPSTREAM)),
            ..Default::default()
        }),
        upstream_protocol_options: Some(UpstreamProtocolOptions::UseDownstreamProtocolConfig(
            UseDownstreamHttpConfig {
                http_protocol_options: Some(Http1ProtocolOptions::default()),
                http2_protocol_options: Some(Http2ProtocolOptions::default()),
                ..Default::default()
            },
        )),
        ..Default::default()
    };
    (PROTOCOL_OPTIONS.to_owned(), pack(&options))
}
