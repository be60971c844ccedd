//! Has an Envoy tell its agent of requests, as spans of OpenTelemetry, and take part in W3C trace context.
//!
//! The control plane's listeners say nothing of traces: whether a node's are wanted is its agent's to know, which adds this on the way.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/trace/v3/opentelemetry.proto>.

use envoy_types::pb::envoy::config::core::v3::{
    GrpcService, TypedExtensionConfig,
    grpc_service::{EnvoyGrpc, TargetSpecifier},
};
use envoy_types::pb::envoy::config::trace::v3::{
    OpenTelemetryConfig,
    tracing::{Http, http::ConfigType},
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    RequestIdExtension, http_connection_manager::Tracing,
};
use envoy_types::pb::envoy::extensions::request_id::uuid::v3::UuidRequestIdConfig;
use envoy_types::pb::envoy::extensions::tracers::opentelemetry::samplers::v3::{
    ParentBasedSamplerConfig, TraceIdRatioBasedSamplerConfig,
};
use envoy_types::pb::envoy::r#type::tracing::v3::{CustomTag, custom_tag};
use envoy_types::pb::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType};
use envoy_types::pb::google::protobuf::{Any, BoolValue, UInt32Value};

use super::managers::{self, Side};
use super::{metadata, pack};

/// Attribute of a span: the connection that the request came by, as `FROM|TO`.
pub const CAME_BY: &str = "weft.layer7.downstream";
/// As [`CAME_BY`]: the one by which it went on.
pub const WENT_BY: &str = "weft.layer7.upstream";
/// Attribute of a span: for whom Envoy stands, [`FOR_CLIENT`] or [`FOR_SERVER`].
pub const STANDS_FOR: &str = "weft.layer7.for";
/// Attribute of a span: "namespace/name" of the service whose routes it is about.
pub const SERVICE: &str = "weft.service";
/// Routes of a service.
pub const FOR_CLIENT: &str = "client";
/// Policies about requests.
pub const FOR_SERVER: &str = "server";

/// Cluster of Envoy's bootstrap: the agent's socket.
const AGENT: &str = "weft.control";
/// Spans that Envoy keeps while the agent is away, about 1 KiB each. More are lost, and counted in its `tracing.opentelemetry.*`.
const KEPT: u32 = 1_024;
/// More of a path is not told.
const LONGEST_PATH: u32 = 256;

/// `resource` with spans of requests; as it is, if it is no listener of layer 7 or cannot be read. `share` says for how many of the
/// requests that nobody has decided about, 0 to 1, by the "namespace/name" of the service that the listener is of.
#[must_use]
pub fn with_spans(resource: Any, share: impl Fn(Option<&str>) -> f64) -> Any {
    managers::change(resource, |listener, side, manager| {
        if manager.tracing.is_some() {
            return false;
        }
        let text = |name| metadata::string(listener.metadata.as_ref(), name);
        let service = text("namespace").zip(text("service"));
        let service = service.map(|(namespace, name)| format!("{namespace}/{name}"));
        let share = share(service.as_deref());
        manager.tracing = Some(tracing(side, service.as_deref(), share));
        manager.request_id_extension = Some(without_request_id());
        true
    })
}

/// Else Envoy traces no request without an `x-request-id`, whatever its `traceparent` says; and it would have to add one.
fn without_request_id() -> RequestIdExtension {
    let config = UuidRequestIdConfig {
        use_request_id_for_trace_sampling: Some(BoolValue { value: false }),
        pack_trace_reason: Some(BoolValue { value: false }),
    };
    RequestIdExtension {
        typed_config: Some(pack(&config)),
    }
}

fn tracing(side: Side, service: Option<&str>, share: f64) -> Tracing {
    let config = OpenTelemetryConfig {
        grpc_service: Some(GrpcService {
            target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                cluster_name: AGENT.to_owned(),
                ..Default::default()
            })),
            ..Default::default()
        }),
        sampler: Some(sampler(share)),
        max_cache_size: Some(UInt32Value { value: KEPT }),
        ..Default::default()
    };
    Tracing {
        provider: Some(Http {
            name: "envoy.tracers.opentelemetry".to_owned(),
            config_type: Some(ConfigType::TypedConfig(pack(&config))),
        }),
        custom_tags: tags(side, service),
        operation: "%REQ(:METHOD)%".to_owned(),
        max_path_tag_length: Some(UInt32Value {
            value: LONGEST_PATH,
        }),
        ..Default::default()
    }
}

/// A `traceparent` decides, and `share` about requests without one.
fn sampler(share: f64) -> TypedExtensionConfig {
    const MILLION: f64 = 1_000_000.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let numerator = (share.clamp(0.0, 1.0) * MILLION).round() as u32;
    let ratio = TraceIdRatioBasedSamplerConfig {
        sampling_percentage: Some(FractionalPercent {
            numerator,
            denominator: DenominatorType::Million as i32,
        }),
    };
    let parent = ParentBasedSamplerConfig {
        wrapped_sampler: Some(extension("trace_id_ratio_based", pack(&ratio))),
    };
    extension("parent_based", pack(&parent))
}

fn extension(name: &str, config: Any) -> TypedExtensionConfig {
    TypedExtensionConfig {
        name: format!("envoy.tracers.opentelemetry.samplers.{name}"),
        typed_config: Some(config),
    }
}

/// What the agent has to know of a request to say whose it is.
fn tags(side: Side, service: Option<&str>) -> Vec<CustomTag> {
    let role = match side {
        Side::Client => FOR_CLIENT,
        Side::Server => FOR_SERVER,
    };
    let tag = |tag: &str, value: &str| CustomTag {
        tag: tag.to_owned(),
        r#type: Some(custom_tag::Type::Value(value.to_owned())),
    };
    let came = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%|%DOWNSTREAM_LOCAL_ADDRESS%";
    let went = "%UPSTREAM_LOCAL_ADDRESS%|%UPSTREAM_REMOTE_ADDRESS%";
    let mut tags = vec![
        tag(CAME_BY, came),
        tag(WENT_BY, went),
        tag(STANDS_FOR, role),
    ];
    tags.extend(service.map(|service| tag(SERVICE, service)));
    tags
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter};
    use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
    use envoy_types::pb::google::protobuf::value::Kind;

    use super::*;
    use crate::convert::unpack;

    const INBOUND: &str = "weft.inbound";
    const TUNNEL: &str = "weft.tunnel";

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

    fn tracing_of(traced: &Any) -> Option<Tracing> {
        let listener: Listener = unpack(traced, "").ok()?;
        let filter = listener.filter_chains.first()?.filters.first()?.clone();
        let filter::ConfigType::TypedConfig(any) = filter.config_type? else {
            return None;
        };
        unpack::<HttpConnectionManager>(&any, "").ok()?.tracing
    }

    fn role(traced: &Any) -> Option<String> {
        tracing_of(traced)?.custom_tags.into_iter().find_map(|tag| {
            let custom_tag::Type::Value(value) = tag.r#type? else {
                return None;
            };
            (tag.tag == STANDS_FOR).then_some(value)
        })
    }

    #[test]
    fn a_service_has_its_own_share_and_is_named() {
        let mut named: Listener = unpack(&listener("shop/web"), "").expect("a listener");
        let text = |text: &str| Some(Kind::StringValue(text.to_owned()));
        named.metadata = metadata::encode([("namespace", text("shop")), ("service", text("web"))]);
        let asked = std::cell::RefCell::new(None);
        let traced = with_spans(pack(&named), |service| {
            asked.replace(service.map(str::to_owned));
            0.25
        });
        assert_eq!(asked.into_inner().as_deref(), Some("shop/web"));
        let tracing = tracing_of(&traced).expect("it is traced");
        let service = tracing.custom_tags.iter().find(|tag| tag.tag == SERVICE);
        let named = service.and_then(|tag| tag.r#type.clone());
        assert_eq!(named, Some(custom_tag::Type::Value("shop/web".to_owned())));
        let Some(ConfigType::TypedConfig(any)) = tracing.provider.and_then(|p| p.config_type)
        else {
            panic!("no provider");
        };
        let config: OpenTelemetryConfig = unpack(&any, "").expect("its config");
        assert_eq!(config.sampler, Some(sampler(0.25)));
        assert_ne!(config.sampler, Some(sampler(0.5)));
    }

    #[test]
    fn what_carries_requests_is_traced_and_nothing_else() {
        let service = with_spans(listener("shop/web"), |_| 0.1);
        assert_eq!(role(&service).as_deref(), Some(FOR_CLIENT));
        let inbound = with_spans(listener(INBOUND), |_| 0.1);
        assert_eq!(role(&inbound).as_deref(), Some(FOR_SERVER));
        for other in [
            listener(TUNNEL),
            pack(&Listener::default()),
            pack(&HttpConnectionManager::default()),
        ] {
            assert_eq!(with_spans(other.clone(), |_| 1.0), other);
        }
        let broken = Any {
            type_url: <Listener as prost::Name>::type_url(),
            value: vec![0xff],
        };
        assert_eq!(with_spans(broken.clone(), |_| 1.0), broken);
    }
}
