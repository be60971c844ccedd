//! `envoy.config.core.v3.CidrRange`.

use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3::CidrRange as Pb;
use envoy_types::pb::google::protobuf::UInt32Value;

use crate::convert::ConvertError;
use crate::model::policy::Cidr;

pub(super) fn encode(cidr: &Cidr) -> Pb {
    Pb {
        address_prefix: cidr.address.to_string(),
        prefix_len: Some(UInt32Value {
            value: cidr.prefix.into(),
        }),
    }
}

/// As Envoy, this takes an absent length for 0 and passes over bits after the prefix.
pub(super) fn decode(pb: &Pb) -> Result<Cidr, ConvertError> {
    let address: IpAddr = pb.address_prefix.parse().map_err(|_| {
        ConvertError::new(
            "address_prefix",
            format!("{:?} is not an IP address", pb.address_prefix),
        )
    })?;
    let length = pb.prefix_len.as_ref().map_or(0, |l| l.value);
    u8::try_from(length)
        .ok()
        .and_then(|prefix| Cidr::new(address, prefix))
        .ok_or_else(|| {
            ConvertError::new(
                "prefix_len",
                format!("{length} is more than {address} has bits"),
            )
        })
}
