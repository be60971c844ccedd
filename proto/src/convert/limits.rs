//! Limits and outlier detection: in `envoy.config.cluster.v3`, and of a listener the network filter `local_ratelimit`.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::{
    CircuitBreakers, OutlierDetection, circuit_breakers::Thresholds,
};
use envoy_types::pb::envoy::extensions::filters::network::local_ratelimit::v3::LocalRateLimit;
use envoy_types::pb::envoy::r#type::v3::TokenBucket;
use envoy_types::pb::google::protobuf::UInt32Value;

use super::{ConvertError, duration};
use crate::model::Outlier;

const SECOND: Duration = Duration::from_secs(1);
// What Envoy takes when a field is not set.
const DEFAULT_FAILURES: u32 = 5;
const DEFAULT_EJECTION: Duration = Duration::from_secs(30);
const DEFAULT_PERCENT: u32 = 10;
const DEFAULT_PRIORITY: i32 = 0;

fn number(value: u32) -> Option<UInt32Value> {
    Some(UInt32Value { value })
}

fn read(value: Option<&UInt32Value>) -> Option<u32> {
    value.map(|v| v.value)
}

pub(super) fn encode_connections(max: u32) -> CircuitBreakers {
    CircuitBreakers {
        thresholds: vec![Thresholds {
            max_connections: number(max),
            ..Thresholds::default()
        }],
        ..CircuitBreakers::default()
    }
}

/// Servers that want no limit send the greatest number, for Envoy has one of 1024 where none is sent. The kernel has none.
pub(super) fn decode_connections(
    pb: Option<&CircuitBreakers>,
) -> Result<Option<u32>, ConvertError> {
    let thresholds = pb.map_or(&[][..], |pb| &pb.thresholds);
    let default = thresholds
        .iter()
        .position(|t| t.priority == DEFAULT_PRIORITY);
    let Some(i) = default else { return Ok(None) };
    match read(thresholds[i].max_connections.as_ref()) {
        None | Some(u32::MAX) => Ok(None),
        Some(0) => Err(ConvertError::new(
            format!("thresholds[{i}].max_connections"),
            "is 0, which would refuse every connection",
        )),
        Some(max) => Ok(Some(max)),
    }
}

pub(super) fn encode_outlier(outlier: &Outlier) -> OutlierDetection {
    OutlierDetection {
        split_external_local_origin_errors: true,
        consecutive_local_origin_failure: number(outlier.consecutive_failures),
        base_ejection_time: duration::encode(Some(outlier.base_ejection)),
        max_ejection_percent: number(outlier.max_ejected_percent),
        ..OutlierDetection::default()
    }
}

/// What of `pb` is about failed connects; `None` when nothing of it is enforced.
pub(super) fn decode_outlier(
    pb: Option<&OutlierDetection>,
) -> Result<Option<Outlier>, ConvertError> {
    let Some(pb) = pb else { return Ok(None) };
    let Some(consecutive_failures) = failures(pb) else {
        return Ok(None);
    };
    let base_ejection = match &pb.base_ejection_time {
        None => DEFAULT_EJECTION,
        Some(time) => duration::decode(Some(time), "base_ejection_time")?
            .ok_or_else(|| ConvertError::new("base_ejection_time", "is 0"))?,
    };
    let max_ejected_percent = read(pb.max_ejection_percent.as_ref()).unwrap_or(DEFAULT_PERCENT);
    if max_ejected_percent > 100 {
        return Err(ConvertError::new(
            "max_ejection_percent",
            format!("{max_ejected_percent} is over 100"),
        ));
    }
    Ok(Some(Outlier {
        consecutive_failures,
        base_ejection,
        max_ejected_percent,
    }))
}

/// Envoy counts a failed connect as a gateway failure and as a 5xx, unless it is told to count local failures apart.
fn failures(pb: &OutlierDetection) -> Option<u32> {
    let counted = |limit: Option<&UInt32Value>, enforced: Option<&UInt32Value>, default: u32| {
        let limit = read(limit).unwrap_or(DEFAULT_FAILURES);
        (limit > 0 && read(enforced).unwrap_or(default) > 0).then_some(limit)
    };
    if pb.split_external_local_origin_errors {
        return counted(
            pb.consecutive_local_origin_failure.as_ref(),
            pb.enforcing_consecutive_local_origin_failure.as_ref(),
            100,
        );
    }
    let any = counted(
        pb.consecutive_5xx.as_ref(),
        pb.enforcing_consecutive_5xx.as_ref(),
        100,
    );
    let gateway = counted(
        pb.consecutive_gateway_failure.as_ref(),
        pb.enforcing_consecutive_gateway_failure.as_ref(),
        0,
    );
    [any, gateway].into_iter().flatten().min()
}

pub(super) fn encode_rate(per_second: u32, stat_prefix: &str) -> LocalRateLimit {
    LocalRateLimit {
        stat_prefix: stat_prefix.to_owned(),
        token_bucket: Some(TokenBucket {
            max_tokens: per_second,
            tokens_per_fill: number(per_second),
            fill_interval: duration::encode(Some(SECOND)),
        }),
        ..LocalRateLimit::default()
    }
}

/// Connections per second, in whole ones. The kernel's bucket holds one second's worth, whatever `max_tokens` says.
pub(super) fn decode_rate(pb: &LocalRateLimit) -> Result<Option<u32>, ConvertError> {
    let flag = pb.runtime_enabled.as_ref();
    if flag
        .and_then(|f| f.default_value)
        .is_some_and(|enabled| !enabled.value)
    {
        return Ok(None);
    }
    if !pb.share_key.is_empty() {
        return Err(ConvertError::new(
            "share_key",
            "the kernel has one bucket for each listener",
        ));
    }
    let Some(bucket) = &pb.token_bucket else {
        return Err(ConvertError::new("token_bucket", "is missing"));
    };
    let interval = duration::decode(bucket.fill_interval.as_ref(), "token_bucket.fill_interval")?
        .ok_or_else(|| ConvertError::new("token_bucket.fill_interval", "is missing"))?;
    let tokens = read(bucket.tokens_per_fill.as_ref()).unwrap_or(1);
    let rate = u128::from(tokens) * SECOND.as_nanos() / interval.as_nanos();
    match u32::try_from(rate) {
        Ok(0) => Err(ConvertError::new(
            "token_bucket.tokens_per_fill",
            format!("{tokens} in {interval:?} is less than one connection per second"),
        )),
        Ok(rate) => Ok(Some(rate)),
        // More than can be counted is no limit.
        Err(_) => Ok(None),
    }
}
