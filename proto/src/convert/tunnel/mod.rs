//! mTLS between nodes, as their Envoys are told: HBONE, which is HTTP/2 CONNECT over mTLS at port 15008 of the destination's address.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/http/upgrades> and docs/mtls.md.

mod cluster;
mod entry;
mod exit;
mod tls;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{
    ConfigSource, GrpcService, SocketOption,
    grpc_service::{EnvoyGrpc, TargetSpecifier},
    socket_option,
};
use envoy_types::pb::envoy::config::listener::v3::{
    Filter, Listener, ListenerFilter, filter, listener_filter,
};
use envoy_types::pb::google::protobuf::{Any, StringValue};
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::Matcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{
    MatcherTree, MatcherType, OnMatch, matcher_tree, on_match,
};

pub use cluster::encode_tunnel_cluster;

use super::{address, balance, duration, pack};
use crate::model::{Protocol, TunnelListener, TunnelSide};

/// Where tunnels end, on pods' addresses.
pub const TUNNEL_PORT: u16 = 15_008;
/// Where Envoy listens for what is to go into a tunnel, on loopback: `ENTRY_PORT` of bpf/include/abi/proxy.h.
pub const ENTRY_PORT: u16 = 15_002;
/// `MARK_TUNNEL` of bpf/include/abi/proxy.h: connections that carry tunnels.
const MARK_TUNNEL: u32 = 0x5eed_0003;
/// `MARK_EMERGED` of bpf/include/abi/proxy.h: connections to local pods that have come out of one.
const MARK_EMERGED: u32 = 0x5eed_0004;
/// A certificate is there sooner, or nobody has one.
const SECRET_WITHIN: Duration = Duration::from_secs(2);
/// Cluster of every Envoy's bootstrap: the agent.
const AGENT: &str = "weft.control";
/// Cluster of every Envoy's bootstrap: whatever `:authority` names.
const EMERGED: &str = "weft.emerged";

/// The resource for `listener`.
#[must_use]
pub fn encode_tunnel_listener(listener: &TunnelListener) -> Listener {
    let address: IpAddr = match (listener.side, listener.ipv6) {
        (TunnelSide::Entry, true) => Ipv6Addr::LOCALHOST.into(),
        (TunnelSide::Entry, false) => Ipv4Addr::LOCALHOST.into(),
        (TunnelSide::Exit, true) => Ipv6Addr::UNSPECIFIED.into(),
        (TunnelSide::Exit, false) => Ipv4Addr::UNSPECIFIED.into(),
    };
    let port = match listener.side {
        TunnelSide::Entry => ENTRY_PORT,
        TunnelSide::Exit => TUNNEL_PORT,
    };
    let mut pb = Listener {
        name: listener.name.clone(),
        address: Some(address::encode(address, port, Protocol::Tcp)),
        connection_balance_config: balance::evenly(),
        ..Default::default()
    };
    match listener.side {
        TunnelSide::Entry => entry::complete(listener, &mut pb),
        TunnelSide::Exit => exit::complete(listener, &mut pb),
    }
    pb
}

/// The filter chain of an address's identity. What is of no local pod has none: it is closed.
fn chain_by_address(input: (&str, Any), pods: &BTreeMap<IpAddr, String>) -> Matcher {
    let chain = |identity: &String| OnMatch {
        on_match: Some(on_match::OnMatch::Action(TypedExtensionConfig {
            name: identity.clone(),
            typed_config: Some(pack(&StringValue {
                value: identity.clone(),
            })),
        })),
        ..Default::default()
    };
    let map: HashMap<String, OnMatch> = pods
        .iter()
        .map(|(address, identity)| (address.to_string(), chain(identity)))
        .collect();
    Matcher {
        matcher_type: Some(MatcherType::MatcherTree(MatcherTree {
            input: Some(TypedExtensionConfig {
                name: input.0.to_owned(),
                typed_config: Some(input.1),
            }),
            tree_type: Some(matcher_tree::TreeType::ExactMatchMap(
                matcher_tree::MatchMap { map },
            )),
        })),
        ..Default::default()
    }
}

/// Identities that have a pod there, each once.
fn identities(listener: &TunnelListener) -> Vec<&String> {
    let mut all: Vec<&String> = listener.pods.values().collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn network_filter(name: &str, config: Any) -> Filter {
    Filter {
        name: name.to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(config)),
    }
}

fn listener_filter(name: &str, config: Any) -> ListenerFilter {
    ListenerFilter {
        name: name.to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(config)),
        ..Default::default()
    }
}

/// The agent, which serves more than ADS at the same socket.
fn agent() -> GrpcService {
    GrpcService {
        target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
            cluster_name: AGENT.to_owned(),
            ..Default::default()
        })),
        ..Default::default()
    }
}

fn from_agent() -> ConfigSource {
    use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
    use envoy_types::pb::envoy::config::core::v3::{ApiConfigSource, api_config_source};
    const V3: i32 = 2;
    ConfigSource {
        resource_api_version: V3,
        config_source_specifier: Some(ConfigSourceSpecifier::ApiConfigSource(ApiConfigSource {
            api_type: api_config_source::ApiType::DeltaGrpc as i32,
            transport_api_version: V3,
            grpc_services: vec![agent()],
            set_node_on_first_message_only: true,
            ..Default::default()
        })),
        // An Envoy that waits for a certificate serves everything else meanwhile.
        initial_fetch_timeout: duration::encode(Some(SECRET_WITHIN)),
        ..Default::default()
    }
}

pub(super) fn mark(mark: u32) -> SocketOption {
    const SOL_SOCKET: i64 = 1;
    const SO_MARK: i64 = 36;
    SocketOption {
        description: "what Envoy opens".to_owned(),
        level: SOL_SOCKET,
        name: SO_MARK,
        state: socket_option::SocketState::StatePrebind as i32,
        value: Some(socket_option::Value::IntValue(mark.into())),
        ..Default::default()
    }
}
