//! `envoy.config.listener.v3.Listener` with an `api_listener`.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/listener/v3/api_listener.proto>.

use envoy_types::pb::envoy::config::listener::v3::{ApiListener as PbApi, Listener as Pb};
use envoy_types::pb::envoy::config::route::v3::{
    RouteConfiguration, route::Action, route_action::MaxStreamDuration,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};

use super::{encode_routes, http, pack};
use crate::model::{ApiListener, RouteTable};

/// The resource for `listener`.
#[must_use]
pub fn encode_api_listener(listener: &ApiListener) -> Pb {
    let manager = HttpConnectionManager {
        stat_prefix: listener.name.clone(),
        route_specifier: Some(RouteSpecifier::Rds(http::rds(&listener.routes))),
        http_filters: vec![http::router()],
        ..Default::default()
    };
    Pb {
        name: listener.name.clone(),
        api_listener: Some(PbApi {
            api_listener: Some(pack(&manager)),
        }),
        ..Default::default()
    }
}

/// The routes of a gRPC client, which takes a request's time from `max_stream_duration`.
///
/// See <https://github.com/grpc/proposal/blob/master/A31-xds-timeout-support-and-config-selector.md>.
#[must_use]
pub fn encode_client_routes(table: &RouteTable) -> RouteConfiguration {
    let mut routes = encode_routes(table);
    let all = routes.virtual_hosts.iter_mut().flat_map(|h| &mut h.routes);
    for action in all.filter_map(|route| route.action.as_mut()) {
        if let Action::Route(action) = action {
            action.max_stream_duration = Some(MaxStreamDuration {
                max_stream_duration: action.timeout.take(),
                ..Default::default()
            });
        }
    }
    routes
}
