//! Has an Envoy tell its agent of requests, as spans of OpenTelemetry, and take part in W3C trace context.
//!
//! The control plane's listeners say nothing of traces: whether a node's are wanted is its agent's to know, which adds this on the way.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/trace/v3/opentelemetry.proto>.

use envoy_types::pb::envoy::config::core::v3::{
    GrpcService,
    grpc_service::{EnvoyGrpc, TargetSpecifier},
};
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener, filter};
use envoy_types::pb::envoy::config::trace::v3::{
    OpenTelemetryConfig,
    tracing::{Http, http::ConfigType},
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::Tracing,
};
use envoy_types::pb::envoy::r#type::tracing::v3::{CustomTag, custom_tag};
use envoy_types::pb::envoy::r#type::v3::Percent;
use envoy_types::pb::google::protobuf::Any;
use prost::Name;

use super::{pack, unpack};

/// Attribute of a span: the connection that the request came by, as `FROM|TO`.
pub const CAME_BY: &str = "weft.layer7.downstream";
/// As [`CAME_BY`]: the one by which it went on.
pub const WENT_BY: &str = "weft.layer7.upstream";
/// Attribute of a span: for whom Envoy stands, [`FOR_CLIENT`] or [`FOR_SERVER`].
pub const STANDS_FOR: &str = "weft.layer7.for";
/// Routes of a service.
pub const FOR_CLIENT: &str = "client";
/// Policies about requests.
pub const FOR_SERVER: &str = "server";

/// Cluster of Envoy's bootstrap: the agent's socket.
const AGENT: &str = "weft.control";
/// What carries tunnels sees no requests.
const TUNNEL: &str = "weft.tunnel";
/// What stands in for servers.
const INBOUND: &str = "weft.inbound";

/// `resource` with spans for `percent` of the requests that come without a decision in their `traceparent`; as it is, if it is no
/// listener of layer 7 or cannot be read.
#[must_use]
pub fn with_spans(resource: Any, percent: f64) -> Any {
    if resource.type_url != Listener::type_url() {
        return resource;
    }
    let Ok(mut listener) = unpack::<Listener>(&resource, "") else {
        return resource;
    };
    let chains = listener.filter_chains.iter_mut();
    let mut changed = false;
    for chain in chains.chain(listener.default_filter_chain.as_mut()) {
        changed |= trace(chain, percent);
    }
    if changed { pack(&listener) } else { resource }
}

fn trace(chain: &mut FilterChain, percent: f64) -> bool {
    let mut changed = false;
    for filter in &mut chain.filters {
        let Some(filter::ConfigType::TypedConfig(any)) = &mut filter.config_type else {
            continue;
        };
        if any.type_url != HttpConnectionManager::type_url() {
            continue;
        }
        let Ok(mut manager) = unpack::<HttpConnectionManager>(any, "") else {
            continue;
        };
        if manager.stat_prefix != TUNNEL && manager.tracing.is_none() {
            let role = if manager.stat_prefix == INBOUND {
                FOR_SERVER
            } else {
                FOR_CLIENT
            };
            manager.tracing = Some(tracing(role, percent));
            // Without an id of its own Envoy traces no request.
            manager.generate_request_id = None;
            *any = pack(&manager);
            changed = true;
        }
    }
    changed
}

fn tracing(role: &str, percent: f64) -> Tracing {
    let config = OpenTelemetryConfig {
        grpc_service: Some(GrpcService {
            target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                cluster_name: AGENT.to_owned(),
                ..Default::default()
            })),
            ..Default::default()
        }),
        service_name: "weft-envoy".to_owned(),
        ..Default::default()
    };
    let tag = |tag: &str, value: &str| CustomTag {
        tag: tag.to_owned(),
        r#type: Some(custom_tag::Type::Value(value.to_owned())),
    };
    Tracing {
        random_sampling: Some(Percent { value: percent }),
        provider: Some(Http {
            name: "envoy.tracers.opentelemetry".to_owned(),
            config_type: Some(ConfigType::TypedConfig(pack(&config))),
        }),
        custom_tags: vec![
            tag(
                CAME_BY,
                "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%|%DOWNSTREAM_LOCAL_ADDRESS%",
            ),
            tag(
                WENT_BY,
                "%UPSTREAM_LOCAL_ADDRESS%|%UPSTREAM_REMOTE_ADDRESS%",
            ),
            tag(STANDS_FOR, role),
        ],
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::listener::v3::Filter;

    use super::*;

    fn listener(prefix: &str) -> Any {
        let manager = HttpConnectionManager {
            stat_prefix: prefix.to_owned(),
            ..Default::default()
        };
        pack(&Listener {
            filter_chains: vec![FilterChain {
                filters: vec![Filter {
                    name: "http".to_owned(),
                    config_type: Some(filter::ConfigType::TypedConfig(pack(&manager))),
                }],
                ..Default::default()
            }],
            ..Default::default()
        })
    }

    fn role(traced: &Any) -> Option<String> {
        let listener: Listener = unpack(traced, "").ok()?;
        let filter = listener.filter_chains.first()?.filters.first()?.clone();
        let filter::ConfigType::TypedConfig(any) = filter.config_type? else {
            return None;
        };
        let tracing = unpack::<HttpConnectionManager>(&any, "").ok()?.tracing?;
        tracing.custom_tags.into_iter().find_map(|tag| {
            let custom_tag::Type::Value(value) = tag.r#type? else {
                return None;
            };
            (tag.tag == STANDS_FOR).then_some(value)
        })
    }

    #[test]
    fn what_carries_requests_is_traced_and_nothing_else() {
        let service = with_spans(listener("shop/web"), 10.0);
        assert_eq!(role(&service).as_deref(), Some(FOR_CLIENT));
        let inbound = with_spans(listener(INBOUND), 10.0);
        assert_eq!(role(&inbound).as_deref(), Some(FOR_SERVER));
        for other in [
            listener(TUNNEL),
            pack(&Listener::default()),
            pack(&HttpConnectionManager::default()),
        ] {
            assert_eq!(with_spans(other.clone(), 10.0), other);
        }
        let broken = Any {
            type_url: Listener::type_url(),
            value: vec![0xff],
        };
        assert_eq!(with_spans(broken.clone(), 10.0), broken);
    }
}
