//! Prefixes that policies mention.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_proto::model::policy::Cidr;

/// All of IPv4.
pub(crate) const ALL_V4: Cidr = Cidr {
    address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    prefix: 0,
};

/// All of IPv6.
pub(crate) const ALL_V6: Cidr = Cidr {
    address: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    prefix: 0,
};

/// Whether every address of `inner` is in `outer`.
pub(crate) fn contains(outer: &Cidr, inner: &Cidr) -> bool {
    outer.prefix <= inner.prefix
        && match (outer.address, inner.address) {
            (IpAddr::V4(outer_address), IpAddr::V4(address)) => {
                let differ = outer_address.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= outer.prefix.into()
            }
            (IpAddr::V6(outer_address), IpAddr::V6(address)) => {
                let differ = outer_address.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= outer.prefix.into()
            }
            _ => false,
        }
}

/// The last address of a prefix.
pub(crate) fn last(cidr: &Cidr) -> IpAddr {
    match cidr.address {
        IpAddr::V4(v4) => {
            let rest = u32::MAX.checked_shr(cidr.prefix.into()).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() | rest).into()
        }
        IpAddr::V6(v6) => {
            let rest = u128::MAX.checked_shr(cidr.prefix.into()).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() | rest).into()
        }
    }
}

/// Counts who mentions which prefix, and finds the most specific one around an address.
#[derive(Debug, Default)]
pub(super) struct Cidrs {
    mentions: HashMap<Cidr, usize>,
    /// Lengths in use, of both families.
    lengths: BTreeSet<u8>,
}

impl Cidrs {
    /// True when nobody mentioned it before.
    pub(super) fn mention(&mut self, cidr: Cidr) -> bool {
        self.lengths.insert(cidr.prefix);
        let count = self.mentions.entry(cidr).or_default();
        *count += 1;
        *count == 1
    }

    /// True when nobody mentions it any more.
    pub(super) fn release(&mut self, cidr: &Cidr) -> bool {
        let Some(count) = self.mentions.get_mut(cidr) else {
            return false;
        };
        *count -= 1;
        let gone = *count == 0;
        if gone {
            self.mentions.remove(cidr);
            self.lengths = self.mentions.keys().map(|known| known.prefix).collect();
        }
        gone
    }

    pub(super) fn most_specific(&self, address: IpAddr) -> Option<Cidr> {
        let around = |prefix: &u8| Cidr::new(address, *prefix);
        let mut lengths = self.lengths.iter().rev().filter_map(around);
        lengths.find(|cidr| self.mentions.contains_key(cidr))
    }

    pub(super) fn has(&self, cidr: &Cidr) -> bool {
        self.mentions.contains_key(cidr)
    }
}

/// The prefix that holds this address only.
pub(crate) const fn host(address: IpAddr) -> Cidr {
    let prefix = if address.is_ipv4() { 32 } else { 128 };
    Cidr { address, prefix }
}
