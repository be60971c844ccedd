//! Address ranges.

use std::net::IpAddr;

use weft_proto::model::policy::Cidr;

use super::names::shown;

/// "10.0.0.0/8" or "fd00::/8". Bits after the prefix are passed over, as Kubernetes does.
pub(super) fn range(text: &str) -> Result<Cidr, String> {
    parse(text).ok_or_else(|| {
        format!(
            "{} is not a CIDR: write it like 10.0.0.0/8 (no leading zeros) or fd00::/8",
            shown(text)
        )
    })
}

/// A range, or a single address.
pub(super) fn range_or_address(text: &str) -> Result<Cidr, String> {
    let single = || {
        let address: IpAddr = text.parse().ok()?;
        Cidr::new(address, if address.is_ipv4() { 32 } else { 128 })
    };
    single().or_else(|| parse(text)).ok_or_else(|| {
        format!(
            "{} is neither an address nor a CIDR: write it like 10.0.0.1, 10.0.0.0/8 or fd00::/8",
            shown(text)
        )
    })
}

fn parse(text: &str) -> Option<Cidr> {
    let (address, prefix) = text.split_once('/')?;
    // Rust takes "+8" for a number, and "08".
    if !prefix.bytes().all(|b| b.is_ascii_digit()) || (prefix.len() > 1 && prefix.starts_with('0'))
    {
        return None;
    }
    Cidr::new(address.parse().ok()?, prefix.parse().ok()?)
}

/// Whether `inner` is a part of `outer`, and not all of it.
pub(super) fn is_within(inner: &Cidr, outer: &Cidr) -> bool {
    inner.address.is_ipv4() == outer.address.is_ipv4()
        && inner.prefix > outer.prefix
        && Cidr::new(inner.address, outer.prefix) == Some(*outer)
}
