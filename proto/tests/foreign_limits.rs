//! Limits and outlier detection as other servers write them.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use weft_proto::convert::{decode_cluster, decode_listener, encode_cluster, encode_listener};
use weft_proto::envoy::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use weft_proto::envoy::envoy::config::cluster::v3::{CircuitBreakers, Cluster, OutlierDetection};
use weft_proto::envoy::envoy::config::core::v3::RuntimeFeatureFlag;
use weft_proto::envoy::envoy::config::listener::v3::filter::ConfigType;
use weft_proto::envoy::envoy::config::listener::v3::{Filter, Listener};
use weft_proto::envoy::envoy::extensions::filters::network::local_ratelimit::v3::LocalRateLimit;
use weft_proto::envoy::envoy::extensions::filters::network::rbac::v3::Rbac;
use weft_proto::envoy::envoy::r#type::v3::TokenBucket;
use weft_proto::envoy::google::protobuf::{Any, BoolValue, Duration as PbDuration, UInt32Value};
use weft_proto::model;

use prost::{Message, Name};

fn number(value: u32) -> Option<UInt32Value> {
    Some(UInt32Value { value })
}

fn cluster() -> Cluster {
    encode_cluster(&model::Cluster {
        name: "c".to_owned(),
        endpoints: model::EndpointSource::Eds("c".to_owned()),
        policy: model::LbPolicy::Random,
        affinity: None,
        locality: model::LocalityMode::None,
        connect_timeout: None,
        max_connections: None,
        outlier: None,
        unaccelerated: false,
        http: false,
    })
}

fn max_connections(thresholds: &[(i32, Option<u32>)]) -> Result<Option<u32>, String> {
    let mut pb = cluster();
    pb.circuit_breakers = Some(CircuitBreakers {
        thresholds: thresholds
            .iter()
            .map(|(priority, max)| Thresholds {
                priority: *priority,
                max_connections: max.and_then(number),
                ..Thresholds::default()
            })
            .collect(),
        ..CircuitBreakers::default()
    });
    decode_cluster(&pb)
        .map(|c| c.max_connections)
        .map_err(|e| e.field)
}

#[test]
fn connections() {
    assert_eq!(max_connections(&[]), Ok(None));
    assert_eq!(max_connections(&[(0, None)]), Ok(None));
    assert_eq!(max_connections(&[(0, Some(7))]), Ok(Some(7)));
    // Istio's "no limit".
    assert_eq!(max_connections(&[(0, Some(u32::MAX))]), Ok(None));
    // Of the other priority.
    assert_eq!(max_connections(&[(1, Some(7))]), Ok(None));
    assert_eq!(max_connections(&[(1, Some(7)), (0, Some(8))]), Ok(Some(8)));
    assert_eq!(
        max_connections(&[(0, Some(0))]),
        Err("circuit_breakers.thresholds[0].max_connections".to_owned())
    );
}

fn outlier(pb: OutlierDetection) -> Result<Option<model::Outlier>, String> {
    let mut cluster = cluster();
    cluster.outlier_detection = Some(pb);
    decode_cluster(&cluster)
        .map(|c| c.outlier)
        .map_err(|e| e.field)
}

fn failures(pb: OutlierDetection) -> Option<u32> {
    outlier(pb).unwrap().map(|o| o.consecutive_failures)
}

#[test]
fn outliers_take_envoys_defaults() {
    assert_eq!(
        outlier(OutlierDetection::default()),
        Ok(Some(model::Outlier {
            consecutive_failures: 5,
            base_ejection: Duration::from_secs(30),
            max_ejected_percent: 10,
        }))
    );
}

#[test]
fn failed_connects_are_counted_by_whatever_is_enforced() {
    let istio = OutlierDetection {
        consecutive_5xx: number(7),
        enforcing_consecutive_5xx: number(100),
        consecutive_gateway_failure: number(3),
        ..OutlierDetection::default()
    };
    assert_eq!(failures(istio.clone()), Some(7), "gateway is not enforced");
    let both = OutlierDetection {
        enforcing_consecutive_gateway_failure: number(100),
        ..istio.clone()
    };
    assert_eq!(failures(both), Some(3));
    let off = OutlierDetection {
        enforcing_consecutive_5xx: number(0),
        ..istio.clone()
    };
    assert_eq!(failures(off), None);
    let split = OutlierDetection {
        split_external_local_origin_errors: true,
        consecutive_local_origin_failure: number(2),
        ..istio
    };
    assert_eq!(failures(split.clone()), Some(2));
    let off = OutlierDetection {
        enforcing_consecutive_local_origin_failure: number(0),
        ..split
    };
    assert_eq!(failures(off), None);
}

#[test]
fn bad_outlier_detection() {
    let too_many = OutlierDetection {
        max_ejection_percent: number(101),
        ..OutlierDetection::default()
    };
    assert_eq!(
        outlier(too_many),
        Err("outlier_detection.max_ejection_percent".to_owned())
    );
    let no_time = OutlierDetection {
        base_ejection_time: Some(PbDuration::default()),
        ..OutlierDetection::default()
    };
    assert_eq!(
        outlier(no_time),
        Err("outlier_detection.base_ejection_time".to_owned())
    );
}

fn listener() -> Listener {
    encode_listener(&model::Listener {
        name: "l".to_owned(),
        service: None,
        addresses: vec!["10.96.0.1".parse().unwrap()],
        port: 80,
        protocol: model::Protocol::Tcp,
        cluster: "c".to_owned(),
        layer: model::Layer::Four,
        side: model::Side::Inside,
        source_ranges: Vec::new(),
        health_check_port: None,
        idle_timeout: None,
        max_duration: None,
        connections_per_second: None,
    })
}

fn filter<T: Message + Name>(config: &T) -> Filter {
    Filter {
        name: "f".to_owned(),
        config_type: Some(ConfigType::TypedConfig(Any {
            type_url: T::type_url(),
            value: config.encode_to_vec(),
        })),
    }
}

fn rate(limit: &LocalRateLimit) -> Result<Option<u32>, String> {
    let mut pb = listener();
    pb.filter_chains[0].filters.insert(0, filter(limit));
    decode_listener(&pb)
        .map(|l| l.connections_per_second)
        .map_err(|e| e.field)
}

fn bucket(tokens: Option<u32>, interval: Duration) -> LocalRateLimit {
    LocalRateLimit {
        stat_prefix: "s".to_owned(),
        token_bucket: Some(TokenBucket {
            max_tokens: 1000,
            tokens_per_fill: tokens.and_then(number),
            fill_interval: Some(PbDuration {
                seconds: i64::try_from(interval.as_secs()).unwrap(),
                nanos: i32::try_from(interval.subsec_nanos()).unwrap(),
            }),
        }),
        ..LocalRateLimit::default()
    }
}

#[test]
fn rates() {
    let field = |name: &str| Err(format!("filter_chains[0].filters[0].{name}"));
    assert_eq!(
        rate(&bucket(Some(5), Duration::from_millis(100))),
        Ok(Some(50))
    );
    assert_eq!(rate(&bucket(None, Duration::from_millis(50))), Ok(Some(20)));
    assert_eq!(
        rate(&bucket(Some(90), Duration::from_secs(60))),
        Ok(Some(1))
    );
    assert_eq!(
        rate(&bucket(Some(1), Duration::from_secs(60))),
        field("token_bucket.tokens_per_fill")
    );
    assert_eq!(
        rate(&bucket(Some(1), Duration::ZERO)),
        field("token_bucket.fill_interval")
    );
    assert_eq!(rate(&LocalRateLimit::default()), field("token_bucket"));
    let shared = LocalRateLimit {
        share_key: "k".to_owned(),
        ..bucket(Some(1), Duration::from_secs(1))
    };
    assert_eq!(rate(&shared), field("share_key"));
    let off = LocalRateLimit {
        runtime_enabled: Some(RuntimeFeatureFlag {
            default_value: Some(BoolValue { value: false }),
            ..RuntimeFeatureFlag::default()
        }),
        ..bucket(Some(1), Duration::from_secs(1))
    };
    assert_eq!(rate(&off), Ok(None));
}

#[test]
fn an_allow_list_that_would_not_be_enforced_is_refused() {
    let mut pb = listener();
    pb.filter_chains[0]
        .filters
        .insert(0, filter(&Rbac::default()));
    let error = decode_listener(&pb).unwrap_err();
    assert_eq!(error.field, "filter_chains[0].filters[0]");
}
