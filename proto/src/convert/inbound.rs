//! What a node's Envoy needs to stand in for pods whose policies need layer 7: a listener for all of them, and for each pod a
//! `RouteConfiguration` that carries its rules. Rules are in the routes so that a change of them is asked with the next request, on
//! connections that are open as well.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/extensions/filters/http/rbac/v3/rbac.proto>.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use envoy_types::pb::envoy::config::core::v3::{CidrRange, SocketOptionsOverride};
use envoy_types::pb::envoy::config::listener::v3::{
    AdditionalAddress, Filter, FilterChain, FilterChainMatch, Listener as Pb, ListenerFilter,
    filter, listener_filter,
};
use envoy_types::pb::envoy::config::rbac::v3::{Rbac as Rules, rbac::Action};
use envoy_types::pb::envoy::config::route::v3::{
    RetryPolicy, Route as PbRoute, RouteAction, RouteConfiguration, RouteMatch, VirtualHost,
    route::Action as PbAction, route_action::ClusterSpecifier, route_match::PathSpecifier,
};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use envoy_types::pb::envoy::extensions::filters::listener::original_dst::v3::OriginalDst;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::PathWithEscapedSlashesAction,
};
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::{
    TcpProxy, tcp_proxy::ClusterSpecifier as TcpCluster,
};
use envoy_types::pb::google::protobuf::{Any, BoolValue, UInt32Value};

use super::{access_log, address, balance, duration, http, pack, policy, tunnel};
use crate::model::Protocol;
use crate::model::inbound::{Guard, Inbound, Rules as GuardRules};

/// `INBOUND_PORT` of bpf/include/abi/proxy.h.
const INBOUND_PORT: u16 = 15_006;
/// `EMERGED_PORT` and `MARK_TO_PROXY`, likewise: what has come out of a tunnel goes to and fro between two sockets of Envoy.
const EMERGED_PORT: u16 = 15_007;
const MARK_TO_PROXY: u32 = 0x5eed_0000;
/// `MARK_ADMITTED` of bpf/include/abi/proxy.h.
const MARK_ADMITTED: u32 = 0x5eed_0002;
/// Cluster of Envoy's bootstrap: wherever the client wanted to go.
const CLUSTER: &str = "weft.inbound";
/// Cluster of Envoy's bootstrap: nowhere.
const REFUSED: &str = "weft.refused";
/// The filters that routes override, by the names that stand in both.
const DENY: &str = "weft.deny";
const ALLOW: &str = "weft.allow";
/// A connection to the pod that does not come about is tried again: nothing was sent yet.
const RETRIES: u32 = 2;

/// The resource for `inbound`.
#[must_use]
pub fn encode_inbound(inbound: &Inbound) -> Pb {
    let listen = match inbound.ipv6 {
        true => IpAddr::V6(Ipv6Addr::LOCALHOST),
        false => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    Pb {
        name: inbound.name(),
        address: Some(address::encode(listen, INBOUND_PORT, Protocol::Tcp)),
        additional_addresses: vec![AdditionalAddress {
            address: Some(address::encode(listen, EMERGED_PORT, Protocol::Tcp)),
            socket_options: Some(SocketOptionsOverride {
                socket_options: vec![tunnel::mark(MARK_TO_PROXY)],
            }),
            ..Default::default()
        }],
        transparent: Some(BoolValue { value: true }),
        connection_balance_config: balance::evenly(),
        listener_filters: vec![ListenerFilter {
            name: "envoy.filters.listener.original_dst".to_owned(),
            config_type: Some(listener_filter::ConfigType::TypedConfig(pack(
                &OriginalDst {},
            ))),
            ..Default::default()
        }],
        filter_chains: inbound
            .pods
            .iter()
            .map(|(address, guard)| chain(*address, guard))
            .collect(),
        // For a pod that is not guarded any more, or not yet.
        default_filter_chain: Some(FilterChain {
            filters: vec![filter(
                "envoy.filters.network.tcp_proxy",
                pack(&TcpProxy {
                    stat_prefix: REFUSED.to_owned(),
                    cluster_specifier: Some(TcpCluster::Cluster(REFUSED.to_owned())),
                    ..Default::default()
                }),
            )],
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn filter(name: &str, config: Any) -> Filter {
    Filter {
        name: name.to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(config)),
    }
}

fn chain(address: IpAddr, guard: &str) -> FilterChain {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    FilterChain {
        name: address.to_string(),
        filter_chain_match: Some(FilterChainMatch {
            prefix_ranges: vec![CidrRange {
                address_prefix: address.to_string(),
                prefix_len: Some(UInt32Value { value: bits }),
            }],
            ..Default::default()
        }),
        filters: vec![filter(http::MANAGER, pack(&manager(guard)))],
        ..Default::default()
    }
}

fn manager(guard: &str) -> HttpConnectionManager {
    // Both refuse everything where a route says nothing of them.
    let closed = Rbac {
        rules: Some(Rules::default()),
        ..Default::default()
    };
    HttpConnectionManager {
        stat_prefix: CLUSTER.to_owned(),
        http_filters: vec![
            http::filter("weft.deny", pack(&closed)),
            http::filter("weft.allow", pack(&closed)),
            http::original_source(MARK_ADMITTED),
            http::router(),
        ],
        // What is judged is what the pod gets.
        normalize_path: Some(BoolValue { value: true }),
        access_log: vec![access_log::refusals()],
        merge_slashes: true,
        path_with_escaped_slashes_action: PathWithEscapedSlashesAction::UnescapeAndForward as i32,
        ..http::manager_for(guard, http::IDLE)
    }
}

/// The resource for `guard`.
#[must_use]
pub fn encode_guard(guard: &Guard) -> RouteConfiguration {
    let deny = RbacPerRoute {
        rbac: Some(Rbac {
            rules: rules(Some(&guard.deny).filter(|r| !r.is_empty()), Action::Deny),
            shadow_rules: rules(
                Some(&guard.audited_deny).filter(|r| !r.is_empty()),
                Action::Deny,
            ),
            ..rbac("deny_")
        }),
    };
    let allow = RbacPerRoute {
        rbac: Some(Rbac {
            rules: rules(guard.allow.as_ref(), Action::Allow),
            shadow_rules: rules(guard.audited_allow.as_ref(), Action::Allow),
            ..rbac("allow_")
        }),
    };
    let route = PbRoute {
        name: guard.name.clone(),
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Prefix("/".to_owned())),
            ..Default::default()
        }),
        action: Some(PbAction::Route(RouteAction {
            cluster_specifier: Some(ClusterSpecifier::Cluster(CLUSTER.to_owned())),
            timeout: duration::encode(Some(std::time::Duration::ZERO)),
            retry_policy: Some(RetryPolicy {
                retry_on: "connect-failure".to_owned(),
                num_retries: Some(UInt32Value { value: RETRIES }),
                ..Default::default()
            }),
            ..Default::default()
        })),
        typed_per_filter_config: [
            (DENY.to_owned(), pack(&deny)),
            (ALLOW.to_owned(), pack(&allow)),
        ]
        .into(),
        ..Default::default()
    };
    RouteConfiguration {
        name: guard.name.clone(),
        virtual_hosts: vec![VirtualHost {
            name: guard.name.clone(),
            domains: vec!["*".to_owned()],
            routes: vec![route],
            ..Default::default()
        }],
        validate_clusters: Some(BoolValue { value: false }),
        ..Default::default()
    }
}

fn rbac(prefix: &str) -> Rbac {
    Rbac {
        shadow_rules_stat_prefix: prefix.to_owned(),
        track_per_rule_stats: true,
        ..Default::default()
    }
}

fn rules(list: Option<&GuardRules>, action: Action) -> Option<Rules> {
    list.map(|list| Rules {
        action: action as i32,
        policies: list
            .iter()
            .map(|(name, rule)| (name.clone(), policy::encode_rule(rule)))
            .collect(),
        ..Rules::default()
    })
}
