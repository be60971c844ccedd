//! `envoy.config.listener.v3.Listener`.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/listener/v3/listener.proto>.

use std::net::IpAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::listener::v3::{
    AdditionalAddress, Filter, FilterChain, Listener as Pb, ListenerFilter, filter, listener_filter,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::local_ratelimit::v3::LocalRateLimit;
use envoy_types::pb::envoy::extensions::filters::network::rbac::v3::Rbac;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::{
    TcpProxy, tcp_proxy::ClusterSpecifier,
};
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::{
    Route, UdpProxyConfig, udp_proxy_config::RouteSpecifier,
};
use envoy_types::pb::google::protobuf::{Any, BoolValue, value::Kind};
use envoy_types::pb::xds::core::v3::TypedExtensionConfig as XdsExtension;
use envoy_types::pb::xds::r#type::matcher::v3::{
    Matcher,
    matcher::{OnMatch, on_match},
};
use prost::Name;

use super::{
    ConvertError, address, balance, duration, http, limits, metadata, outside, pack, unpack,
};
use crate::model::{Layer, Listener, Protocol, ServiceRef};

const RATE_LIMIT: &str = "envoy.filters.network.local_ratelimit";
const TCP_PROXY: &str = "envoy.filters.network.tcp_proxy";
const UDP_PROXY: &str = "envoy.filters.udp_listener.udp_proxy";
const UDP_ROUTE: &str = "route";
// Names in the metadata of UDP listeners, for which Envoy has no such limits.
const MAX_DURATION: &str = "maxDurationMs";
const RATE: &str = "connectionsPerSecond";
// In that of listeners of layer 7, which name no cluster: whom the node's own processes reach without Envoy.
const CLUSTER: &str = "cluster";

/// The resource for `listener`.
#[must_use]
pub fn encode_listener(listener: &Listener) -> Pb {
    let mut addresses = listener
        .addresses
        .iter()
        .map(|ip| address::encode(*ip, listener.port, listener.protocol));
    let is_udp = listener.protocol == Protocol::Udp;
    let service = listener.service.as_ref();
    let text = |s: Option<&String>| s.map(|s| Kind::StringValue(s.clone()));
    let mut pb = Pb {
        name: listener.name.clone(),
        address: addresses.next(),
        additional_addresses: addresses
            .map(|a| AdditionalAddress {
                address: Some(a),
                ..Default::default()
            })
            .collect(),
        traffic_direction: outside::direction(listener.side),
        metadata: metadata::encode(
            outside::metadata(listener).into_iter().chain([
                ("namespace", text(service.map(|s| &s.namespace))),
                ("service", text(service.map(|s| &s.name))),
                ("portName", text(service.map(|s| &s.port_name))),
                (
                    CLUSTER,
                    (listener.layer == Layer::Seven)
                        .then(|| Kind::StringValue(listener.cluster.clone())),
                ),
                (
                    MAX_DURATION,
                    listener.max_duration.filter(|_| is_udp).map(milliseconds),
                ),
                (
                    RATE,
                    listener
                        .connections_per_second
                        .filter(|_| is_udp)
                        .map(|n| Kind::NumberValue(n.into())),
                ),
            ]),
        ),
        ..Default::default()
    };
    match listener.protocol {
        Protocol::Tcp => {
            pb.bind_to_port = Some(BoolValue { value: false });
            pb.filter_chains.push(tcp_chain(listener));
            if listener.layer == Layer::Seven {
                pb.connection_balance_config = balance::evenly();
            }
        }
        Protocol::Udp => {
            // Envoy has no UDP listener that does not bind; so that it can bind an address which no interface has:
            pb.freebind = Some(BoolValue { value: true });
            pb.listener_filters.push(udp_filter(listener));
        }
    }
    pb
}

/// Exact up to 285,000 years.
#[allow(clippy::cast_precision_loss)]
fn milliseconds(duration: Duration) -> Kind {
    Kind::NumberValue(duration.as_millis() as f64)
}

fn tcp_chain(listener: &Listener) -> FilterChain {
    let proxy = TcpProxy {
        stat_prefix: listener.name.clone(),
        cluster_specifier: Some(ClusterSpecifier::Cluster(listener.cluster.clone())),
        idle_timeout: duration::encode(listener.idle_timeout),
        max_downstream_connection_duration: duration::encode(listener.max_duration),
        ..Default::default()
    };
    let filter = |name: &str, config| Filter {
        name: name.to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(config)),
    };
    let rate = listener.connections_per_second;
    let rate = rate.map(|n| limits::encode_rate(n, &listener.name));
    let terminal = match listener.layer {
        Layer::Four => filter(TCP_PROXY, pack(&proxy)),
        Layer::Seven => filter(http::MANAGER, pack(&http::manager(listener))),
    };
    FilterChain {
        filter_chain_match: outside::source_match(listener),
        filters: (rate.iter().map(|limit| filter(RATE_LIMIT, pack(limit))))
            .chain([terminal])
            .collect(),
        ..Default::default()
    }
}

fn udp_filter(listener: &Listener) -> ListenerFilter {
    let route = Route {
        cluster: listener.cluster.clone(),
    };
    let proxy = UdpProxyConfig {
        stat_prefix: listener.name.clone(),
        idle_timeout: duration::encode(listener.idle_timeout),
        route_specifier: Some(RouteSpecifier::Matcher(Matcher {
            on_no_match: Some(Box::new(OnMatch {
                on_match: Some(on_match::OnMatch::Action(XdsExtension {
                    name: UDP_ROUTE.to_owned(),
                    typed_config: Some(pack(&route)),
                })),
                ..Default::default()
            })),
            ..Default::default()
        })),
        ..Default::default()
    };
    ListenerFilter {
        name: UDP_PROXY.to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(pack(&proxy))),
        ..Default::default()
    }
}

/// What the kernel needs of `pb`.
///
/// # Errors
/// No name, address or port; not exactly one filter chain, or one with other conditions than sources; a filter chain that does not end
/// in `tcp_proxy` or `http_connection_manager`, or that has RBAC; several target clusters; on the inside, what is only for outside.
pub fn decode_listener(pb: &Pb) -> Result<Listener, ConvertError> {
    if pb.name.is_empty() {
        return Err(ConvertError::new("name", "is empty"));
    }
    let (addresses, port, wire_protocol) = addresses(pb)?;
    let target = match udp_proxy(pb)? {
        Some(proxy) => udp_target(&proxy, pb)?,
        None if wire_protocol == Protocol::Udp => {
            return Err(ConvertError::new(
                "listener_filters",
                "a UDP listener needs envoy.filters.udp_listener.udp_proxy",
            ));
        }
        None => tcp_target(pb)?,
    };
    let outside = outside::decode(pb, target.protocol, target.layer)?;
    let text = |name| metadata::string(pb.metadata.as_ref(), name).map(str::to_owned);
    Ok(Listener {
        name: pb.name.clone(),
        service: text("namespace")
            .zip(text("service"))
            .map(|(namespace, name)| ServiceRef {
                namespace,
                name,
                port_name: text("portName").unwrap_or_default(),
            }),
        addresses,
        port,
        protocol: target.protocol,
        cluster: target.cluster,
        layer: target.layer,
        side: outside.side,
        source_ranges: outside.source_ranges,
        health_check_port: outside.health_check_port,
        idle_timeout: target.idle_timeout,
        max_duration: target.max_duration,
        connections_per_second: target.connections_per_second,
    })
}

struct Target {
    protocol: Protocol,
    layer: Layer,
    cluster: String,
    idle_timeout: Option<Duration>,
    max_duration: Option<Duration>,
    connections_per_second: Option<u32>,
}

fn addresses(pb: &Pb) -> Result<(Vec<IpAddr>, u16, Protocol), ConvertError> {
    let (first, protocol) =
        address::decode(pb.address.as_ref()).map_err(|e| e.within("address"))?;
    let mut all = vec![first.ip()];
    for (i, more) in pb.additional_addresses.iter().enumerate() {
        let field = format!("additional_addresses[{i}].address");
        let (next, _) = address::decode(more.address.as_ref()).map_err(|e| e.within(&field))?;
        if next.port() != first.port() {
            return Err(ConvertError::new(
                field,
                "all addresses of a listener must share one port",
            ));
        }
        if !all.contains(&next.ip()) {
            all.push(next.ip());
        }
    }
    Ok((all, first.port(), protocol))
}

fn udp_proxy(pb: &Pb) -> Result<Option<UdpProxyConfig>, ConvertError> {
    for (i, filter) in pb.listener_filters.iter().enumerate() {
        if let Some(listener_filter::ConfigType::TypedConfig(any)) = &filter.config_type
            && any.type_url == UdpProxyConfig::type_url()
        {
            return unpack(any, &format!("listener_filters[{i}]")).map(Some);
        }
    }
    Ok(None)
}

fn udp_target(proxy: &UdpProxyConfig, listener: &Pb) -> Result<Target, ConvertError> {
    const FIELD: &str = "listener_filters.udp_proxy";
    let cluster = match &proxy.route_specifier {
        Some(RouteSpecifier::Matcher(matcher)) => only_route(matcher),
        #[allow(deprecated)]
        Some(RouteSpecifier::Cluster(cluster)) => Some(cluster.clone()),
        None => None,
    };
    Ok(Target {
        protocol: Protocol::Udp,
        layer: Layer::Four,
        cluster: cluster.filter(|c| !c.is_empty()).ok_or_else(|| {
            ConvertError::new(
                format!("{FIELD}.matcher"),
                "must be a single on_no_match action that names one cluster",
            )
        })?,
        idle_timeout: duration::decode(
            proxy.idle_timeout.as_ref(),
            &format!("{FIELD}.idle_timeout"),
        )?,
        max_duration: udp_number(listener, MAX_DURATION)?.map(Duration::from_millis),
        connections_per_second: udp_number(listener, RATE)?
            .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
    })
}

/// A whole number over zero from the listener's metadata.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn udp_number(listener: &Pb, name: &str) -> Result<Option<u64>, ConvertError> {
    match metadata::number(listener.metadata.as_ref(), name) {
        None => Ok(None),
        Some(n) if (1.0..=9e15).contains(&n) => Ok(Some(n as u64)),
        Some(n) => Err(ConvertError::new(
            format!("metadata.weft.{name}"),
            format!("{n} is not a number over zero"),
        )),
    }
}

/// The cluster of a matcher without conditions.
fn only_route(matcher: &Matcher) -> Option<String> {
    if matcher.matcher_type.is_some() {
        return None;
    }
    match matcher.on_no_match.as_ref()?.on_match.as_ref()? {
        on_match::OnMatch::Action(action) => {
            let any = action.typed_config.as_ref()?;
            unpack::<Route>(any, "").ok().map(|r| r.cluster)
        }
        on_match::OnMatch::Matcher(_) => None,
    }
}

fn tcp_target(pb: &Pb) -> Result<Target, ConvertError> {
    let chain = match (pb.filter_chains.as_slice(), &pb.default_filter_chain) {
        ([chain], None) => chain,
        ([], Some(chain)) => chain,
        _ => {
            return Err(ConvertError::new(
                "filter_chains",
                "the kernel takes exactly one filter chain",
            ));
        }
    };
    let field = "filter_chains[0].filters";
    let Some(filter::ConfigType::TypedConfig(last)) =
        chain.filters.last().and_then(|f| f.config_type.as_ref())
    else {
        return Err(ConvertError::new(
            field,
            "must end in envoy.filters.network.tcp_proxy or http_connection_manager",
        ));
    };
    let mut target = terminal_filter(last, field, pb)?;
    for (i, filter) in chain.filters.iter().enumerate() {
        let field = format!("{field}[{i}]");
        let Some(filter::ConfigType::TypedConfig(any)) = &filter.config_type else {
            continue;
        };
        if any.type_url == LocalRateLimit::type_url() {
            target.connections_per_second =
                limits::decode_rate(&unpack(any, &field)?).map_err(|e| e.within(&field))?;
        }
        if any.type_url == Rbac::type_url() {
            return Err(ConvertError::new(
                field,
                "RBAC is not enforced for a listener: send a weft.policy.v1.Policy",
            ));
        }
    }
    Ok(target)
}

fn terminal_filter(any: &Any, field: &str, pb: &Pb) -> Result<Target, ConvertError> {
    if any.type_url == HttpConnectionManager::type_url() {
        // Its routes are Envoy's business.
        let cluster = metadata::string(pb.metadata.as_ref(), CLUSTER);
        return Ok(Target {
            protocol: Protocol::Tcp,
            layer: Layer::Seven,
            cluster: cluster.unwrap_or_default().to_owned(),
            idle_timeout: None,
            max_duration: None,
            connections_per_second: None,
        });
    }
    if any.type_url != TcpProxy::type_url() {
        return Err(ConvertError::new(
            field,
            format!(
                "ends in {}, not tcp_proxy or http_connection_manager",
                any.type_url
            ),
        ));
    }
    let proxy: TcpProxy = unpack(any, field)?;
    let cluster = match &proxy.cluster_specifier {
        Some(ClusterSpecifier::Cluster(cluster)) if !cluster.is_empty() => cluster.clone(),
        _ => {
            return Err(ConvertError::new(
                format!("{field}.tcp_proxy.cluster"),
                "must name one cluster (weighted_clusters is not taken: give the endpoints weights)",
            ));
        }
    };
    Ok(Target {
        protocol: Protocol::Tcp,
        layer: Layer::Four,
        cluster,
        idle_timeout: duration::decode(
            proxy.idle_timeout.as_ref(),
            &format!("{field}.tcp_proxy.idle_timeout"),
        )?,
        max_duration: duration::decode(
            proxy.max_downstream_connection_duration.as_ref(),
            &format!("{field}.tcp_proxy.max_downstream_connection_duration"),
        )?,
        connections_per_second: None,
    })
}
