//! An identity's way out: mTLS with its certificate, from the address of the pod whose connection it carries.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster,
    cluster::{ClusterDiscoveryType, DiscoveryType, LbConfig, LbPolicy, OriginalDstLbConfig},
};
use envoy_types::pb::envoy::config::core::v3::{
    BindConfig, Http2ProtocolOptions, HttpProtocolOptions as CommonOptions, KeepaliveSettings,
    TransportSocket, transport_socket,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::UpstreamTlsContext;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::{
    HttpProtocolOptions,
    http_protocol_options::{
        ExplicitHttpConfig, UpstreamProtocolOptions, explicit_http_config::ProtocolConfig,
    },
};
use envoy_types::pb::google::protobuf::UInt32Value;

use super::{MARK_TUNNEL, TUNNEL_PORT, mark, tls};
use crate::convert::{duration, http, pack};
use crate::model::TunnelCluster;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Kept for the next connection to the same pod.
const IDLE: Duration = Duration::from_secs(60);
/// A node that is gone is noticed after these two together.
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBE_WITHIN: Duration = Duration::from_secs(5);

/// The resource for `cluster`.
#[must_use]
pub fn encode_tunnel_cluster(cluster: &TunnelCluster) -> Cluster {
    let tls = UpstreamTlsContext {
        common_tls_context: Some(tls::context(&cluster.identity, &cluster.trust_domain)),
        ..Default::default()
    };
    Cluster {
        name: cluster.name.clone(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(
            DiscoveryType::OriginalDst as i32,
        )),
        lb_policy: LbPolicy::ClusterProvided as i32,
        lb_config: Some(LbConfig::OriginalDstLbConfig(OriginalDstLbConfig {
            upstream_port_override: Some(UInt32Value {
                value: TUNNEL_PORT.into(),
            }),
            ..Default::default()
        })),
        connect_timeout: duration::encode(Some(CONNECT_WITHIN)),
        upstream_bind_config: Some(BindConfig {
            socket_options: vec![mark(MARK_TUNNEL)],
            ..Default::default()
        }),
        typed_extension_protocol_options: [(
            http::PROTOCOL_OPTIONS.to_owned(),
            pack(&protocol_options()),
        )]
        .into(),
        transport_socket: Some(TransportSocket {
            name: "envoy.transport_sockets.tls".to_owned(),
            config_type: Some(transport_socket::ConfigType::TypedConfig(pack(&tls))),
        }),
        ..Default::default()
    }
}

fn protocol_options() -> HttpProtocolOptions {
    let http2 = Http2ProtocolOptions {
        connection_keepalive: Some(KeepaliveSettings {
            interval: duration::encode(Some(PROBE_EVERY)),
            timeout: duration::encode(Some(PROBE_WITHIN)),
            ..Default::default()
        }),
        ..Default::default()
    };
    HttpProtocolOptions {
        common_http_protocol_options: Some(CommonOptions {
            idle_timeout: duration::encode(Some(IDLE)),
            ..Default::default()
        }),
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(
            ExplicitHttpConfig {
                protocol_config: Some(ProtocolConfig::Http2ProtocolOptions(http2)),
            },
        )),
        ..Default::default()
    }
}
