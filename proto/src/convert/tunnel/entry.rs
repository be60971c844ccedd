//! Where connections go into tunnels: as plain bytes, which no HTTP filter sees.

use std::time::Duration;

use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::extensions::filters::listener::original_dst::v3::OriginalDst;
use envoy_types::pb::envoy::extensions::filters::listener::original_src::v3::OriginalSrc;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::{
    TcpProxy,
    tcp_proxy::{ClusterSpecifier, TunnelingConfig},
};
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::SourceIpInput;

use envoy_types::pb::google::protobuf::BoolValue;

use super::{MARK_TUNNEL, chain_by_address, identities, listener_filter, network_filter};
use crate::convert::{duration, pack};
use crate::model::TunnelListener;

/// By the pod that opened the connection: its tunnel has its certificate, and comes from its address.
pub(super) fn complete(listener: &TunnelListener, pb: &mut Listener) {
    pb.transparent = Some(BoolValue { value: true });
    pb.listener_filters = vec![
        listener_filter("envoy.filters.listener.original_dst", pack(&OriginalDst {})),
        listener_filter(
            "envoy.filters.listener.original_src",
            pack(&OriginalSrc {
                mark: MARK_TUNNEL,
                ..Default::default()
            }),
        ),
    ];
    pb.filter_chain_matcher = Some(chain_by_address(
        ("envoy.matching.inputs.source_ip", pack(&SourceIpInput {})),
        &listener.pods,
    ));
    let chains = identities(listener).into_iter();
    pb.filter_chains = chains
        .filter_map(|identity| Some(chain(identity, listener.clusters.get(identity)?)))
        .collect();
}

fn chain(identity: &str, cluster: &str) -> FilterChain {
    let proxy = TcpProxy {
        stat_prefix: "weft.tunnel".to_owned(),
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster.to_owned())),
        tunneling_config: Some(TunnelingConfig {
            hostname: "%DOWNSTREAM_LOCAL_ADDRESS%".to_owned(),
            ..Default::default()
        }),
        // How long a connection may rest is the kernel's to say.
        idle_timeout: duration::encode(Some(Duration::ZERO)),
        ..Default::default()
    };
    FilterChain {
        name: identity.to_owned(),
        filters: vec![network_filter(
            "envoy.filters.network.tcp_proxy",
            pack(&proxy),
        )],
        ..Default::default()
    }
}
