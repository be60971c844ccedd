//! Address prefixes.

use std::net::IpAddr;
use std::str::FromStr;

/// An address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// Bits after the prefix mean nothing.
    pub address: IpAddr,
    /// 0 to 32, or to 128.
    pub prefix: u32,
}

/// A text that is no CIDR.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no CIDR")]
pub struct CidrError(String);

impl Cidr {
    /// Whether the address, which has to be of the same family, begins with the prefix.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        if self.address.is_ipv4() != address.is_ipv4() {
            return false;
        }
        let (ours, width) = bits(self.address);
        let (theirs, _) = bits(address);
        self.prefix == 0 || (ours ^ theirs) >> (width - self.prefix) == 0
    }

    /// The first and the last address.
    #[must_use]
    pub fn bounds(&self) -> (IpAddr, IpAddr) {
        let (number, width) = bits(self.address);
        let host = match width - self.prefix {
            128 => u128::MAX,
            bits => (1 << bits) - 1,
        };
        let first = number & !host;
        let like = |number: u128| match self.address {
            IpAddr::V4(_) => IpAddr::V4((number as u32).into()),
            IpAddr::V6(_) => IpAddr::V6(number.into()),
        };
        (like(first), like(first | host))
    }
}

fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u32::from(v4).into(), 32),
        IpAddr::V6(v6) => (v6.into(), 128),
    }
}

/// `10.0.0.0/8`; a single address is its own CIDR, as Istio has it.
impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let error = || CidrError(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let width = bits(address).1;
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| error())?,
            None => width,
        };
        if prefix > width {
            return Err(error());
        }
        Ok(Self { address, prefix })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_in_and_their_neighbours_are_not() {
        for (cidr, first, last, outside) in [
            ("10.1.2.3/8", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("0.0.0.0/0", "0.0.0.0", "255.255.255.255", "::"),
            (
                "::/0",
                "::",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "0.0.0.0",
            ),
            (
                "fd00:1::/64",
                "fd00:1::",
                "fd00:1::ffff:ffff:ffff:ffff",
                "fd00:1:0:1::",
            ),
        ] {
            let cidr: Cidr = cidr.parse().unwrap();
            let address = |text: &str| text.parse::<IpAddr>().unwrap();
            assert_eq!(cidr.bounds(), (address(first), address(last)));
            assert!(cidr.contains(address(first)) && cidr.contains(address(last)));
            assert!(!cidr.contains(address(outside)));
        }
        for bad in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0/8",
            "10.0.0.0/-1",
        ] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }
}
