//! `envoy.config.endpoint.v3.ClusterLoadAssignment`.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/endpoint/v3/endpoint.proto>.

use std::collections::{BTreeMap, HashSet};

use envoy_types::pb::envoy::config::core::v3::{HealthStatus, Locality as PbLocality};
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment as Pb, Endpoint as PbEndpoint, LbEndpoint, LocalityLbEndpoints,
    lb_endpoint::HostIdentifier,
};
use envoy_types::pb::google::protobuf::UInt32Value;

use super::{ConvertError, address};
use crate::model::{ClusterEndpoints, Endpoint, Health, Locality, Protocol};

/// The resource for `endpoints`; the same set in any order gives the same bytes.
#[must_use]
pub fn encode_endpoints(endpoints: &ClusterEndpoints) -> Pb {
    encode_list(&endpoints.name, &endpoints.endpoints)
}

pub(super) fn encode_list(name: &str, list: &[Endpoint]) -> Pb {
    let mut groups: BTreeMap<(u32, &Locality), Vec<&Endpoint>> = BTreeMap::new();
    for endpoint in list {
        groups
            .entry((endpoint.priority, &endpoint.locality))
            .or_default()
            .push(endpoint);
    }
    Pb {
        cluster_name: name.to_owned(),
        endpoints: groups
            .into_iter()
            .map(|((priority, locality), mut members)| {
                members.sort_unstable_by_key(|e| e.address);
                let weight = members
                    .iter()
                    .map(|e| e.weight)
                    .fold(0, u32::saturating_add);
                LocalityLbEndpoints {
                    locality: Some(PbLocality {
                        zone: locality.zone.clone(),
                        sub_zone: locality.node.clone(),
                        ..Default::default()
                    }),
                    lb_endpoints: members.into_iter().map(encode_endpoint).collect(),
                    priority,
                    // For gRPC's clients, to whom a locality without weight is none. Envoy and the kernel do not look at it.
                    load_balancing_weight: Some(UInt32Value { value: weight }),
                    ..Default::default()
                }
            })
            .collect(),
        ..Default::default()
    }
}

fn encode_endpoint(endpoint: &Endpoint) -> LbEndpoint {
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(PbEndpoint {
            // Envoy wants the default here, whatever the listener speaks.
            address: Some(address::encode(
                endpoint.address.ip(),
                endpoint.address.port(),
                Protocol::Tcp,
            )),
            ..Default::default()
        })),
        health_status: match endpoint.health {
            Health::Healthy => HealthStatus::Healthy,
            Health::Draining => HealthStatus::Draining,
            Health::Unhealthy => HealthStatus::Unhealthy,
        } as i32,
        load_balancing_weight: Some(UInt32Value {
            value: endpoint.weight,
        }),
        ..Default::default()
    }
}

/// The endpoints of `pb`. An address that appears twice counts once, as it appeared first.
///
/// # Errors
/// No name; an endpoint without a literal address and port; a weight of 0; more than 128 priorities (Envoy's bound).
pub fn decode_endpoints(pb: &Pb) -> Result<ClusterEndpoints, ConvertError> {
    if pb.cluster_name.is_empty() {
        return Err(ConvertError::new("cluster_name", "is empty"));
    }
    Ok(ClusterEndpoints {
        name: pb.cluster_name.clone(),
        endpoints: decode_list(pb)?,
    })
}

pub(super) fn decode_list(pb: &Pb) -> Result<Vec<Endpoint>, ConvertError> {
    let mut list = Vec::with_capacity(pb.endpoints.iter().map(|g| g.lb_endpoints.len()).sum());
    let mut seen = HashSet::new();
    for (g, group) in pb.endpoints.iter().enumerate() {
        if group.priority > 127 {
            return Err(ConvertError::new(
                format!("endpoints[{g}].priority"),
                format!("{} is over 127", group.priority),
            ));
        }
        let locality = group
            .locality
            .as_ref()
            .map(|l| Locality {
                zone: l.zone.clone(),
                node: l.sub_zone.clone(),
            })
            .unwrap_or_default();
        for (e, member) in group.lb_endpoints.iter().enumerate() {
            let endpoint = decode_endpoint(member, group.priority, &locality)
                .map_err(|err| err.within(&format!("endpoints[{g}].lb_endpoints[{e}]")))?;
            if seen.insert(endpoint.address) {
                list.push(endpoint);
            }
        }
    }
    Ok(list)
}

fn decode_endpoint(
    pb: &LbEndpoint,
    priority: u32,
    locality: &Locality,
) -> Result<Endpoint, ConvertError> {
    let Some(HostIdentifier::Endpoint(host)) = &pb.host_identifier else {
        return Err(ConvertError::new("endpoint", "is missing"));
    };
    let (address, _) =
        address::decode(host.address.as_ref()).map_err(|e| e.within("endpoint.address"))?;
    let weight = pb.load_balancing_weight.as_ref().map_or(1, |w| w.value);
    if weight == 0 {
        return Err(ConvertError::new(
            "load_balancing_weight",
            "is 0: leave the endpoint out or mark it UNHEALTHY instead",
        ));
    }
    Ok(Endpoint {
        address,
        weight,
        priority,
        health: match pb.health_status() {
            HealthStatus::Unknown | HealthStatus::Healthy | HealthStatus::Degraded => {
                Health::Healthy
            }
            HealthStatus::Draining => Health::Draining,
            HealthStatus::Unhealthy | HealthStatus::Timeout => Health::Unhealthy,
        },
        locality: locality.clone(),
    })
}
