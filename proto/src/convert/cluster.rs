//! `envoy.config.cluster.v3.Cluster`.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/cluster.proto>.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster as Pb, LoadBalancingPolicy,
    cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig, LbPolicy as PbPolicy},
    load_balancing_policy::Policy,
};
use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, ConfigSource, TypedExtensionConfig,
    config_source::ConfigSourceSpecifier,
};
use envoy_types::pb::envoy::extensions::load_balancing_policies::{
    least_request::v3::LeastRequest, maglev::v3::Maglev, random::v3::Random,
    round_robin::v3::RoundRobin,
};
use envoy_types::pb::google::protobuf::value::Kind;

use super::{ConvertError, duration, endpoints, http, limits, metadata, pack};
use crate::model::{Cluster, EndpointSource, LbPolicy, LocalityMode};

const AFFINITY: &str = "sessionAffinitySeconds";
const LOCALITY: &str = "locality";
const ACCELERATION: &str = "acceleration";
const DISABLED: &str = "Disabled";

/// The resource for `cluster`, endpoints by ADS.
#[must_use]
pub fn encode_cluster(cluster: &Cluster) -> Pb {
    let (discovery, eds, load_assignment) = match &cluster.endpoints {
        EndpointSource::Eds(name) => (DiscoveryType::Eds, Some(eds_config(name)), None),
        EndpointSource::Static(list) => (
            DiscoveryType::Static,
            None,
            Some(endpoints::encode_list(&cluster.name, list)),
        ),
    };
    Pb {
        name: cluster.name.clone(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(discovery as i32)),
        eds_cluster_config: eds,
        load_assignment,
        load_balancing_policy: Some(policies(cluster.policy)),
        connect_timeout: duration::encode(cluster.connect_timeout),
        circuit_breakers: cluster.max_connections.map(limits::encode_connections),
        outlier_detection: cluster.outlier.as_ref().map(limits::encode_outlier),
        metadata: metadata::encode([
            (
                AFFINITY,
                cluster.affinity.map(|d| Kind::NumberValue(d.as_secs_f64())),
            ),
            (
                LOCALITY,
                (cluster.locality != LocalityMode::None)
                    .then(|| Kind::StringValue(cluster.locality.as_str().to_owned())),
            ),
            (
                ACCELERATION,
                cluster
                    .unaccelerated
                    .then(|| Kind::StringValue(DISABLED.to_owned())),
            ),
        ]),
        typed_extension_protocol_options: (cluster.http.then(http::protocol_options))
            .into_iter()
            .collect(),
        ..Default::default()
    }
}

/// The policy, and what gRPC's clients take if they have none such.
///
/// See <https://github.com/grpc/proposal/blob/master/A52-xds-custom-lb-policies.md>.
fn policies(policy: LbPolicy) -> LoadBalancingPolicy {
    let round_robin = || ("round_robin", pack(&RoundRobin::default()));
    let first = match policy {
        LbPolicy::Random => ("random", pack(&Random::default())),
        LbPolicy::RoundRobin => round_robin(),
        LbPolicy::LeastRequest => ("least_request", pack(&LeastRequest::default())),
        LbPolicy::Maglev => ("maglev", pack(&Maglev::default())),
    };
    let second = (policy != LbPolicy::RoundRobin).then(round_robin);
    let entry = |(name, config)| Policy {
        typed_extension_config: Some(TypedExtensionConfig {
            name: format!("envoy.load_balancing_policies.{name}"),
            typed_config: Some(config),
        }),
    };
    LoadBalancingPolicy {
        policies: [first].into_iter().chain(second).map(entry).collect(),
    }
}

fn eds_config(name: &str) -> EdsClusterConfig {
    EdsClusterConfig {
        eds_config: Some(ConfigSource {
            resource_api_version: 2, // V3
            config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
            ..Default::default()
        }),
        service_name: name.to_owned(),
    }
}

/// What the kernel needs of `pb`.
///
/// # Errors
/// No name; a discovery type other than EDS and STATIC; a load-balancing policy that the kernel has not; limits or metadata out of range.
pub fn decode_cluster(pb: &Pb) -> Result<Cluster, ConvertError> {
    if pb.name.is_empty() {
        return Err(ConvertError::new("name", "is empty"));
    }
    Ok(Cluster {
        name: pb.name.clone(),
        endpoints: endpoint_source(pb)?,
        policy: policy(pb)?,
        affinity: affinity(pb)?,
        locality: locality(pb)?,
        connect_timeout: duration::decode(pb.connect_timeout.as_ref(), "connect_timeout")?,
        max_connections: limits::decode_connections(pb.circuit_breakers.as_ref())
            .map_err(|e| e.within("circuit_breakers"))?,
        outlier: limits::decode_outlier(pb.outlier_detection.as_ref())
            .map_err(|e| e.within("outlier_detection"))?,
        unaccelerated: unaccelerated(pb)?,
        http: pb
            .typed_extension_protocol_options
            .contains_key(http::PROTOCOL_OPTIONS),
    })
}

fn endpoint_source(pb: &Pb) -> Result<EndpointSource, ConvertError> {
    let discovery = match pb.cluster_discovery_type {
        Some(ClusterDiscoveryType::Type(t)) => DiscoveryType::try_from(t).ok(),
        Some(ClusterDiscoveryType::ClusterType(_)) => None,
        None => Some(DiscoveryType::Static),
    };
    match discovery {
        Some(DiscoveryType::Eds) => {
            let name = pb
                .eds_cluster_config
                .as_ref()
                .map(|c| c.service_name.as_str())
                .filter(|n| !n.is_empty());
            Ok(EndpointSource::Eds(name.unwrap_or(&pb.name).to_owned()))
        }
        Some(DiscoveryType::Static) => {
            let list = pb.load_assignment.as_ref().map_or_else(
                || Ok(Vec::new()),
                |cla| endpoints::decode_list(cla).map_err(|e| e.within("load_assignment")),
            )?;
            Ok(EndpointSource::Static(list))
        }
        _ => Err(ConvertError::new(
            "type",
            "the kernel takes EDS and STATIC clusters only",
        )),
    }
}

fn policy(pb: &Pb) -> Result<LbPolicy, ConvertError> {
    if let Some(list) = &pb.load_balancing_policy {
        return extension_policy(list);
    }
    match pb.lb_policy() {
        PbPolicy::RoundRobin => Ok(LbPolicy::RoundRobin),
        PbPolicy::LeastRequest => Ok(LbPolicy::LeastRequest),
        PbPolicy::Random => Ok(LbPolicy::Random),
        // Both are consistent hashing; the kernel has one table for it.
        PbPolicy::Maglev | PbPolicy::RingHash => Ok(LbPolicy::Maglev),
        other => Err(ConvertError::new(
            "lb_policy",
            format!(
                "{} is not one of ROUND_ROBIN, LEAST_REQUEST, RANDOM, MAGLEV, RING_HASH",
                other.as_str_name()
            ),
        )),
    }
}

/// The first policy that the kernel knows, as the API asks of a client.
fn extension_policy(list: &LoadBalancingPolicy) -> Result<LbPolicy, ConvertError> {
    list.policies
        .iter()
        .filter_map(|p| p.typed_extension_config.as_ref()?.typed_config.as_ref())
        .find_map(|any| match any.type_url.rsplit('.').next()? {
            "RoundRobin" => Some(LbPolicy::RoundRobin),
            "LeastRequest" => Some(LbPolicy::LeastRequest),
            "Random" => Some(LbPolicy::Random),
            "Maglev" | "RingHash" => Some(LbPolicy::Maglev),
            _ => None,
        })
        .ok_or_else(|| {
            ConvertError::new(
                "load_balancing_policy.policies",
                "none is RoundRobin, LeastRequest, Random, Maglev or RingHash",
            )
        })
}

fn affinity(pb: &Pb) -> Result<Option<Duration>, ConvertError> {
    let Some(seconds) = metadata::number(pb.metadata.as_ref(), AFFINITY) else {
        return Ok(None);
    };
    // Kubernetes allows up to one day.
    if (1.0..=86_400.0).contains(&seconds) {
        Ok(Some(Duration::from_secs_f64(seconds)))
    } else {
        Err(ConvertError::new(
            format!("metadata.weft.{AFFINITY}"),
            format!("{seconds} is not in 1 to 86400"),
        ))
    }
}

fn unaccelerated(pb: &Pb) -> Result<bool, ConvertError> {
    match metadata::string(pb.metadata.as_ref(), ACCELERATION) {
        None => Ok(false),
        Some(name) if name == DISABLED => Ok(true),
        Some(name) => Err(ConvertError::new(
            format!("metadata.weft.{ACCELERATION}"),
            format!("{name:?} is not {DISABLED}: leave it out where acceleration is welcome"),
        )),
    }
}

fn locality(pb: &Pb) -> Result<LocalityMode, ConvertError> {
    let Some(name) = metadata::string(pb.metadata.as_ref(), LOCALITY) else {
        return Ok(LocalityMode::None);
    };
    [
        LocalityMode::None,
        LocalityMode::PreferNode,
        LocalityMode::PreferZone,
        LocalityMode::NodeOnly,
    ]
    .into_iter()
    .find(|m| m.as_str() == name)
    .ok_or_else(|| {
        ConvertError::new(
            format!("metadata.weft.{LOCALITY}"),
            format!("{name:?} is not None, PreferNode, PreferZone or NodeOnly"),
        )
    })
}
