//! `weft.workload.v1.Workload`.

use std::net::IpAddr;

use super::ConvertError;
use crate::model::policy::IpProtocol;
use crate::model::{NamedPort, Workload, WorkloadKind};
use crate::wire::workload::v1::{Kind, NamedPort as PbPort, Workload as Pb};

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
        ports: workload.ports.iter().map(encode_port).collect(),
        unaccelerated: workload.unaccelerated,
    }
}

fn encode_port(port: &NamedPort) -> PbPort {
    PbPort {
        name: port.name.clone(),
        port: port.port.into(),
        protocol: match port.protocol {
            IpProtocol::Tcp => 6,
            IpProtocol::Udp => 17,
            IpProtocol::Sctp => 132,
            IpProtocol::Icmp => 1,
        },
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
/// No name, no kind, an address that is neither 4 nor 16 bytes, or a named port that is none.
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
        ports: pb
            .ports
            .iter()
            .enumerate()
            .map(|(i, port)| decode_port(port).map_err(|e| e.within(&format!("ports[{i}]"))))
            .collect::<Result<_, _>>()?,
        unaccelerated: pb.unaccelerated,
    })
}

fn decode_port(pb: &PbPort) -> Result<NamedPort, ConvertError> {
    if pb.name.is_empty() {
        return Err(ConvertError::new("name", "is empty"));
    }
    let port = u16::try_from(pb.port).ok().filter(|p| *p != 0);
    Ok(NamedPort {
        name: pb.name.clone(),
        port: port.ok_or_else(|| {
            ConvertError::new(
                "port",
                format!("{} is not a port: give 1 to 65535", pb.port),
            )
        })?,
        protocol: match pb.protocol {
            6 => IpProtocol::Tcp,
            17 => IpProtocol::Udp,
            132 => IpProtocol::Sctp,
            other => {
                return Err(ConvertError::new(
                    "protocol",
                    format!("{other} is not 6 (TCP), 17 (UDP) or 132 (SCTP)"),
                ));
            }
        },
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
