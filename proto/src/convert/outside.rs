//! Whose connections a listener takes, and what there is to say about those from outside alone.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/listener/v3/listener_components.proto>.

use envoy_types::pb::envoy::config::core::v3::TrafficDirection;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener as Pb};
use envoy_types::pb::google::protobuf::{ListValue, Value, value::Kind};

use super::{ConvertError, cidr, metadata};
use crate::model::policy::Cidr;
use crate::model::{Layer, Listener, Protocol, Side};

/// In the metadata of UDP listeners, which have no filter chains: as text, each "10.0.0.0/8".
const SOURCE_RANGES: &str = "sourceRanges";
const HEALTH_CHECK_PORT: &str = "healthCheckPort";
const CONDITIONS: &str = "filter_chains[0].filter_chain_match";

/// What a listener says about it.
pub(super) struct Outside {
    pub(super) side: Side,
    pub(super) source_ranges: Vec<Cidr>,
    pub(super) health_check_port: Option<u16>,
}

/// `traffic_direction`: inside is where nothing is said.
pub(super) const fn direction(side: Side) -> i32 {
    match side {
        Side::Inside => TrafficDirection::Unspecified as i32,
        Side::Outside => TrafficDirection::Inbound as i32,
    }
}

/// The condition of a TCP listener's filter chain.
pub(super) fn source_match(listener: &Listener) -> Option<FilterChainMatch> {
    let ranges = &listener.source_ranges;
    (!ranges.is_empty()).then(|| FilterChainMatch {
        source_prefix_ranges: ranges.iter().map(cidr::encode).collect(),
        ..Default::default()
    })
}

/// What there is no field for.
pub(super) fn metadata(listener: &Listener) -> [(&'static str, Option<Kind>); 2] {
    let ranges = Some(&listener.source_ranges)
        .filter(|ranges| listener.protocol == Protocol::Udp && !ranges.is_empty());
    let text = |range: &Cidr| Value {
        kind: Some(Kind::StringValue(range.to_string())),
    };
    [
        (
            SOURCE_RANGES,
            ranges.map(|all| {
                Kind::ListValue(ListValue {
                    values: all.iter().map(text).collect(),
                })
            }),
        ),
        (
            HEALTH_CHECK_PORT,
            listener
                .health_check_port
                .map(|port| Kind::NumberValue(port.into())),
        ),
    ]
}

/// # Errors
/// Conditions that the kernel does not know; layer 7 from outside; inside, what is for outside alone.
pub(super) fn decode(pb: &Pb, protocol: Protocol, layer: Layer) -> Result<Outside, ConvertError> {
    let side = side(pb)?;
    let told = ranges_told(pb)?;
    let (field, source_ranges) = match protocol {
        Protocol::Tcp if told.is_some() => {
            return Err(ConvertError::new(
                in_metadata(SOURCE_RANGES),
                "is for UDP listeners: of TCP, give filter_chain_match.source_prefix_ranges",
            ));
        }
        Protocol::Tcp => (
            format!("{CONDITIONS}.source_prefix_ranges"),
            ranges_matched(pb)?,
        ),
        Protocol::Udp => (in_metadata(SOURCE_RANGES), told.unwrap_or_default()),
    };
    let health_check_port = health_check_port(pb)?;
    match side {
        Side::Inside if !source_ranges.is_empty() => return Err(only_outside(field)),
        Side::Inside if health_check_port.is_some() => {
            return Err(only_outside(in_metadata(HEALTH_CHECK_PORT)));
        }
        Side::Outside if layer == Layer::Seven => {
            return Err(ConvertError::new(
                "traffic_direction",
                "what comes from outside (INBOUND) is balanced at layer 4: end the filter chain in tcp_proxy",
            ));
        }
        Side::Inside | Side::Outside => {}
    }
    Ok(Outside {
        side,
        source_ranges,
        health_check_port,
    })
}

fn in_metadata(name: &str) -> String {
    format!("metadata.weft.{name}")
}

fn only_outside(field: String) -> ConvertError {
    ConvertError::new(
        field,
        "is for what comes from outside: set traffic_direction to INBOUND, or send a Policy",
    )
}

fn side(pb: &Pb) -> Result<Side, ConvertError> {
    match TrafficDirection::try_from(pb.traffic_direction) {
        Ok(TrafficDirection::Unspecified | TrafficDirection::Outbound) => Ok(Side::Inside),
        Ok(TrafficDirection::Inbound) => Ok(Side::Outside),
        Err(_) => Err(ConvertError::new(
            "traffic_direction",
            format!("{} is not known", pb.traffic_direction),
        )),
    }
}

/// Whom the only filter chain is for.
fn ranges_matched(pb: &Pb) -> Result<Vec<Cidr>, ConvertError> {
    let condition = |chain: &FilterChain| {
        let condition = chain.filter_chain_match.clone();
        condition.unwrap_or_default()
    };
    let mut found = pb.filter_chains.first().map(condition).unwrap_or_default();
    let ranges = std::mem::take(&mut found.source_prefix_ranges);
    // The default chain is for whatever matches nothing else: Envoy would not look at conditions of its own.
    let default = pb.default_filter_chain.as_ref().map(condition);
    if [Some(found), default]
        .into_iter()
        .flatten()
        .any(|rest| rest != FilterChainMatch::default())
    {
        return Err(ConvertError::new(
            CONDITIONS,
            "the kernel takes a filter chain without conditions only, but for source_prefix_ranges",
        ));
    }
    let field = |i| format!("{CONDITIONS}.source_prefix_ranges[{i}]");
    ranges
        .iter()
        .enumerate()
        .map(|(i, range)| cidr::decode(range).map_err(|e| e.within(&field(i))))
        .collect()
}

fn ranges_told(pb: &Pb) -> Result<Option<Vec<Cidr>>, ConvertError> {
    let field = in_metadata(SOURCE_RANGES);
    let list = match metadata::field(pb.metadata.as_ref(), SOURCE_RANGES) {
        None => return Ok(None),
        Some(Kind::ListValue(list)) => list,
        Some(_) => return Err(ConvertError::new(field, "is not a list")),
    };
    let range = |(i, value): (usize, &Value)| {
        let field = format!("{field}[{i}]");
        match &value.kind {
            Some(Kind::StringValue(text)) => {
                cidr::parse(text).map_err(|e| ConvertError::new(field, e))
            }
            _ => Err(ConvertError::new(field, "is not text like \"10.0.0.0/8\"")),
        }
    };
    let ranges = list.values.iter().enumerate().map(range);
    ranges.collect::<Result<_, _>>().map(Some)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn health_check_port(pb: &Pb) -> Result<Option<u16>, ConvertError> {
    match metadata::field(pb.metadata.as_ref(), HEALTH_CHECK_PORT) {
        None => Ok(None),
        Some(Kind::NumberValue(n)) if (1.0..=65_535.0).contains(n) && n.fract() == 0.0 => {
            Ok(Some(*n as u16))
        }
        Some(_) => Err(ConvertError::new(
            in_metadata(HEALTH_CHECK_PORT),
            "is not a port: give a number from 1 to 65535",
        )),
    }
}
