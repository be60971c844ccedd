//! Where tunnels end: who comes has a certificate, comes from an address of that identity, and goes to a pod of this node.
//!
//! The agent says whose an address is (`ext_authz`, once for each connection that carries tunnels). Where a request wants to go is for the
//! kernel to judge, as Envoy connects in the client's name: to pods of this node alone.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{
    Http2ProtocolOptions, TransportSocket, transport_socket,
};
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::{
    Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost, route,
    route_action::{
        ClusterSpecifier, UpgradeConfig as RouteUpgrade, upgrade_config::ConnectConfig,
    },
    route_match::{ConnectMatcher, PathSpecifier},
};
use envoy_types::pb::envoy::extensions::filters::http::original_src::v3::OriginalSrc;
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::ext_authz::v3::ExtAuthz;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter,
    http_connection_manager::{CodecType, RouteSpecifier, UpgradeConfig},
    http_filter::ConfigType,
};
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::DestinationIpInput;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
use envoy_types::pb::google::protobuf::{Any, BoolValue};

use super::{EMERGED, MARK_EMERGED, agent, chain_by_address, identities, network_filter, tls};
use crate::convert::{duration, http, pack};
use crate::model::TunnelListener;

/// Of a CONNECT request, as of the route.
const CONNECT: &str = "CONNECT";
/// Without limit.
const NEVER: Option<Duration> = Some(Duration::ZERO);

/// By the pod that the tunnel leads to: its certificate is shown.
pub(super) fn complete(listener: &TunnelListener, pb: &mut Listener) {
    // Envoy's capture listener hands over to it what has this port, at whatever address.
    pb.bind_to_port = Some(BoolValue { value: false });
    pb.filter_chain_matcher = Some(chain_by_address(
        (
            "envoy.matching.inputs.destination_ip",
            pack(&DestinationIpInput {}),
        ),
        &listener.pods,
    ));
    let chains = identities(listener).into_iter();
    pb.filter_chains = chains
        .map(|identity| chain(identity, &listener.trust_domain))
        .collect();
}

fn chain(identity: &str, trust_domain: &str) -> FilterChain {
    let tls = DownstreamTlsContext {
        common_tls_context: Some(tls::context(identity, trust_domain)),
        require_client_certificate: Some(BoolValue { value: true }),
        // A session that is taken up again would be one whose certificate has expired meanwhile.
        disable_stateful_session_resumption: true,
        session_ticket_keys_type: Some(
            envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::downstream_tls_context::SessionTicketKeysType::DisableStatelessSessionResumption(true),
        ),
        ..Default::default()
    };
    let owner = ExtAuthz {
        stat_prefix: "weft.tunnel".to_owned(),
        grpc_service: Some(agent()),
        transport_api_version: 2, // V3
        ..Default::default()
    };
    FilterChain {
        name: identity.to_owned(),
        transport_socket: Some(TransportSocket {
            name: "envoy.transport_sockets.tls".to_owned(),
            config_type: Some(transport_socket::ConfigType::TypedConfig(pack(&tls))),
        }),
        filters: vec![
            network_filter("envoy.filters.network.ext_authz", pack(&owner)),
            network_filter(http::MANAGER, pack(&manager())),
        ],
        ..Default::default()
    }
}

fn manager() -> HttpConnectionManager {
    HttpConnectionManager {
        codec_type: CodecType::Http2 as i32,
        stat_prefix: "weft.tunnel".to_owned(),
        route_specifier: Some(RouteSpecifier::RouteConfig(routes())),
        http_filters: vec![
            http_filter(
                "envoy.filters.http.original_src",
                pack(&OriginalSrc { mark: MARK_EMERGED }),
            ),
            http_filter(
                "envoy.filters.http.router",
                pack(&Router {
                    suppress_envoy_headers: true,
                    ..Default::default()
                }),
            ),
        ],
        http2_protocol_options: Some(Http2ProtocolOptions::default()),
        // The client is who the address says, whatever a header does.
        use_remote_address: Some(BoolValue { value: true }),
        skip_xff_append: true,
        generate_request_id: Some(BoolValue { value: false }),
        stream_idle_timeout: duration::encode(NEVER),
        upgrade_configs: vec![UpgradeConfig {
            upgrade_type: CONNECT.to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn http_filter(name: &str, config: Any) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(ConfigType::TypedConfig(config)),
        ..Default::default()
    }
}

/// CONNECT and nothing else.
fn routes() -> RouteConfiguration {
    let forward = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(EMERGED.to_owned())),
        timeout: duration::encode(NEVER),
        upgrade_configs: vec![RouteUpgrade {
            upgrade_type: CONNECT.to_owned(),
            connect_config: Some(ConnectConfig::default()),
            ..Default::default()
        }],
        ..Default::default()
    };
    RouteConfiguration {
        name: "weft.tunnel".to_owned(),
        virtual_hosts: vec![VirtualHost {
            name: "all".to_owned(),
            domains: vec!["*".to_owned()],
            routes: vec![Route {
                r#match: Some(RouteMatch {
                    path_specifier: Some(PathSpecifier::ConnectMatcher(ConnectMatcher {})),
                    ..Default::default()
                }),
                action: Some(route::Action::Route(forward)),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}
