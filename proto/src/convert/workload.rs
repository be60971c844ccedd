//! `weft.workload.v1.Workload`.

use std::net::IpAddr;

use super::ConvertError;
use crate::model::{Workload, WorkloadKind};
use crate::wire::workload::v1::{Kind, Workload as Pb};

/// The resource for `workload`.
#[must_use]
pub fn encode_workload(workload: &Workload) -> Pb {
    Pb {
        name: workload.name.clone(),
        kind: match workload.kind {
            WorkloadKind::Pod => Kind::Pod,
            WorkloadKind::Node => Kind::Node,
        } as i32,
        addresses: workload.addresses.iter().map(address_bytes).collect(),
        node: workload.node.clone(),
        namespace: workload.namespace.clone(),
        service_account: workload.service_account.clone(),
        labels: workload.labels.clone().into_iter().collect(),
        spiffe_id: workload.spiffe_id.clone(),
        host_network: workload.host_network,
        zone: workload.zone.clone(),
    }
}

fn address_bytes(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The workload in `pb`.
///
/// # Errors
/// No name, no kind, or an address that is neither 4 nor 16 bytes.
pub fn decode_workload(pb: &Pb) -> Result<Workload, ConvertError> {
    if pb.name.is_empty() {
        return Err(ConvertError::new("name", "is empty"));
    }
    let kind = match pb.kind() {
        Kind::Pod => WorkloadKind::Pod,
        Kind::Node => WorkloadKind::Node,
        Kind::Unspecified => return Err(ConvertError::new("kind", "is missing")),
    };
    let addresses = pb
        .addresses
        .iter()
        .enumerate()
        .map(|(i, bytes)| {
            parse_address(bytes).ok_or_else(|| {
                ConvertError::new(
                    format!("addresses[{i}]"),
                    format!("has {} bytes, not 4 or 16", bytes.len()),
                )
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(Workload {
        name: pb.name.clone(),
        kind,
        addresses,
        node: pb.node.clone(),
        zone: pb.zone.clone(),
        namespace: pb.namespace.clone(),
        service_account: pb.service_account.clone(),
        labels: pb.labels.clone().into_iter().collect(),
        spiffe_id: pb.spiffe_id.clone(),
        host_network: pb.host_network,
    })
}

fn parse_address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        Some(IpAddr::from(v4))
    } else {
        let v6 = <[u8; 16]>::try_from(bytes).ok()?;
        Some(IpAddr::from(v6).to_canonical())
    }
}
