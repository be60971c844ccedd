//! `envoy.config.core.v3.CidrRange`.

use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3::CidrRange as Pb;
use envoy_types::pb::google::protobuf::UInt32Value;

use super::ConvertError;
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

/// From "10.0.0.0/8" or "fd00::/8"; bits after the prefix are passed over here too.
pub(super) fn parse(text: &str) -> Result<Cidr, String> {
    let found = text.split_once('/').and_then(|(address, prefix)| {
        // Rust takes "+8" for a number.
        let digits = prefix.bytes().all(|b| b.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|_| digits)?;
        Cidr::new(address.parse().ok()?, prefix)
    });
    found.ok_or_else(|| format!("{text:?} is not a range like 10.0.0.0/8 or fd00::/8"))
}
