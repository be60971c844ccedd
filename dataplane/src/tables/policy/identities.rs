//! Maps `identities` and `cidr_identities`: who has an address.

use std::net::IpAddr;

use super::{CidrKey, IdentityEntry, IdentityNumber, NodePart};
use crate::bpf::Record;
use crate::bpf::types::{self, identity_flags};
use crate::tables::address;

/// Bits of the v4-mapped prefix, ::ffff:0:0/96.
const MAPPED: u32 = 96;

impl Record for IpAddr {
    type Raw = types::weft_addr;

    fn to_raw(&self) -> Self::Raw {
        address::to_raw(*self)
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(address::from_raw(raw))
    }
}

impl Record for IdentityNumber {
    type Raw = u32;

    fn to_raw(&self) -> u32 {
        self.0
    }

    fn from_raw(raw: u32) -> Option<Self> {
        (raw != 0).then_some(Self(raw))
    }
}

impl Record for IdentityEntry {
    type Raw = types::identity;

    fn to_raw(&self) -> Self::Raw {
        types::identity {
            number: self.number.0,
            interface: self.interface,
            flags: match self.node {
                NodePart::None => 0,
                NodePart::Host => identity_flags::IDENTITY_HOST.0,
                NodePart::Remote => identity_flags::IDENTITY_REMOTE_NODE.0,
            },
            pad: 0,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        let has = |flag: identity_flags| raw.flags & flag.0 != 0;
        Some(Self {
            number: IdentityNumber::from_raw(raw.number)?,
            interface: raw.interface,
            node: if has(identity_flags::IDENTITY_HOST) {
                NodePart::Host
            } else if has(identity_flags::IDENTITY_REMOTE_NODE) {
                NodePart::Remote
            } else {
                NodePart::None
            },
        })
    }
}

impl Record for CidrKey {
    type Raw = types::cidr_key;

    fn to_raw(&self) -> Self::Raw {
        types::cidr_key {
            prefix: u32::from(self.prefix) + if self.address.is_ipv4() { MAPPED } else { 0 },
            addr: address::to_raw(self.address),
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        // A short IPv6 prefix of zeros has no v4-mapped bits of its own.
        let address = address::from_raw(raw.addr);
        let bits = match address {
            IpAddr::V4(_) => raw.prefix.checked_sub(MAPPED)?,
            IpAddr::V6(_) => raw.prefix,
        };
        Some(Self {
            address,
            prefix: u8::try_from(bits).ok()?,
        })
    }
}
