//! `weft.workload.v1.Workload`.

use std::net::IpAddr;

use super::ConvertError;
use crate::model::policy::IpProtocol;
use crate::model::{Mtls, MtlsMode, NamedPort, Workload, WorkloadKind};
use crate::wire::workload::v1::{Kind, Mtls as PbMode, NamedPort as PbPort, Workload as Pb};

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
        out_of_mesh: workload.out_of_mesh,
        mtls: encode_mode(workload.mtls.mode),
        port_mtls: (workload.mtls.ports.iter())
            .map(|(port, mode)| (u32::from(*port), encode_mode(*mode)))
            .collect(),
        tunnel: workload.mtls.tunnel,
    }
}

const fn encode_mode(mode: MtlsMode) -> i32 {
    (match mode {
        MtlsMode::Permissive => PbMode::Permissive,
        MtlsMode::Strict => PbMode::Strict,
        MtlsMode::Disable => PbMode::Disable,
    }) as i32
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
/// No name, no kind, an address that is neither 4 nor 16 bytes, a named port that is none, or an mTLS mode that is not known.
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
        out_of_mesh: pb.out_of_mesh,
        mtls: decode_mtls(pb)?,
    })
}

fn decode_mtls(pb: &Pb) -> Result<Mtls, ConvertError> {
    let port = |(number, mode): (&u32, &i32)| {
        let field = format!("port_mtls[{number}]");
        let port = u16::try_from(*number).ok().filter(|p| *p != 0);
        let port = port.ok_or_else(|| ConvertError::new(&field, "is not a port: 1 to 65535"))?;
        Ok((port, decode_mode(*mode, &field)?))
    };
    Ok(Mtls {
        mode: decode_mode(pb.mtls, "mtls")?,
        ports: pb.port_mtls.iter().map(port).collect::<Result<_, _>>()?,
        tunnel: pb.tunnel,
    })
}

/// A mode that is not known is no permission to pass.
fn decode_mode(mode: i32, field: &str) -> Result<MtlsMode, ConvertError> {
    match PbMode::try_from(mode) {
        Ok(PbMode::Permissive) => Ok(MtlsMode::Permissive),
        Ok(PbMode::Strict) => Ok(MtlsMode::Strict),
        Ok(PbMode::Disable) => Ok(MtlsMode::Disable),
        Err(_) => Err(ConvertError::new(
            field,
            format!("{mode} is none of PERMISSIVE, STRICT and DISABLE"),
        )),
    }
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
