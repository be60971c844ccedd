//! Addresses as few prefixes: neighbours that fill a prefix are that prefix.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weft_proto::model::policy::Cidr;

/// Prefixes that hold these addresses and no others, in order.
pub(super) fn covering(addresses: impl IntoIterator<Item = IpAddr>) -> Vec<Cidr> {
    let hosts = addresses.into_iter().filter_map(|address| {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Cidr::new(address, bits)
    });
    // Pairs are joined, and pairs of what came of that, until there are none.
    let mut left: BTreeSet<Cidr> = hosts.collect();
    let mut whole = Vec::new();
    while !left.is_empty() {
        let mut joined = BTreeSet::new();
        while let Some(first) = left.pop_first() {
            let around = first.prefix.checked_sub(1);
            let around = around.and_then(|prefix| Cidr::new(first.address, prefix));
            let next = left.first().copied();
            match (around, next) {
                (Some(around), Some(next))
                    if next.prefix == first.prefix
                        && Cidr::new(next.address, around.prefix) == Some(around) =>
                {
                    left.pop_first();
                    joined.insert(around);
                }
                _ => whole.push(first),
            }
        }
        left = joined;
    }
    whole.sort_unstable();
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(addresses: &[&str]) -> Vec<String> {
        let addresses = addresses.iter().map(|a| a.parse().unwrap());
        let all = covering(addresses);
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn neighbours_are_one_prefix_and_nothing_else_is_in_it() {
        assert!(covered(&[]).is_empty());
        assert_eq!(
            covered(&["10.0.0.1", "10.0.0.2"]),
            ["10.0.0.1/32", "10.0.0.2/32"]
        );
        assert_eq!(covered(&["10.0.0.2", "10.0.0.3"]), ["10.0.0.2/31"]);
        assert_eq!(
            covered(&["10.0.0.3", "10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.4"]),
            ["10.0.0.0/30", "10.0.0.4/32"]
        );
        assert_eq!(
            covered(&["fd00::", "10.0.0.0", "fd00::1", "10.0.0.0"]),
            ["10.0.0.0/32", "fd00::/127"]
        );
    }
}
