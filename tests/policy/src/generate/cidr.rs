//! CIDRs around the addresses of a cluster.

use std::net::IpAddr;

use super::{Random, cluster};

/// One that has something of the cluster in it, or is near to that; sometimes with bits after its prefix.
pub(super) fn cidr(random: &mut Random) -> String {
    let address = cluster::any_address(random);
    let width = width(address);
    let prefix = match random.number(0..=9) {
        0 => 0,
        1 => width,
        2 => width - 1,
        3 => 8,
        n => width - 2 * (n as u32 - 2),
    };
    written(random, address, prefix)
}

/// A CIDR, and some that are properly in it.
pub(super) fn cidr_with_except(random: &mut Random) -> (String, Option<Vec<String>>) {
    let address = cluster::any_address(random);
    let width = width(address);
    let prefix = random.pick(&[0, 8, 16, width / 2, width - 8, width - 4, width - 1]);
    let except = random.unless_one_in(3, |r| {
        r.many(0..=3, |r| {
            // Near to a pod or a node as often as the prefix allows.
            let inside = keep_prefix(address, cluster::any_address(r), prefix);
            let longer = r.number(prefix as usize + 1..=width as usize) as u32;
            written(r, inside, longer)
        })
    });
    (written(random, address, prefix), except)
}

fn written(random: &mut Random, address: IpAddr, prefix: u32) -> String {
    if random.one_in(8) {
        format!("{address}/{prefix}")
    } else {
        format!("{}/{prefix}", keep_prefix(address, zero(address), prefix))
    }
}

/// `prefix` bits of the first address, and the rest of the second, if it is of the same family.
fn keep_prefix(first: IpAddr, second: IpAddr, prefix: u32) -> IpAddr {
    match (first, second) {
        (IpAddr::V4(first), IpAddr::V4(second)) => {
            let mask = u32::MAX.checked_shr(prefix).unwrap_or(0);
            IpAddr::V4(((u32::from(first) & !mask) | (u32::from(second) & mask)).into())
        }
        (IpAddr::V6(first), IpAddr::V6(second)) => {
            let mask = u128::MAX.checked_shr(prefix).unwrap_or(0);
            IpAddr::V6(((u128::from(first) & !mask) | (u128::from(second) & mask)).into())
        }
        (first, _) => first,
    }
}

fn zero(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(0.into()),
        IpAddr::V6(_) => IpAddr::V6(0.into()),
    }
}

const fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
