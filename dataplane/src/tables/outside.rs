//! Maps `source_ranges`, `nat_settings` and `uplinks`: traffic from outside the cluster.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_proto::model::policy::Cidr;

use super::{ServiceKey, address};
use crate::bpf::{Record, types};

/// Bits of the key before the client's address, which a prefix counts as well.
const SERVICE_BITS: u32 = 8 * size_of::<types::service_key>() as u32;
/// Of an IPv4 address in its v4-mapped form.
const MAPPED_BITS: u32 = 96;

/// Clients of a service's address, by prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceRangeKey {
    /// What they ask for.
    pub service: ServiceKey,
    /// Who they are; `None`: everybody.
    pub clients: Option<Cidr>,
}

/// Whether they are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetIn(pub bool);

/// The one entry of `nat_settings`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatSettings {
    /// There are services for clients outside.
    pub enabled: bool,
    /// Ports that connections to other nodes get here.
    pub ports: NodeSidePorts,
}

/// A range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSidePorts {
    /// The first.
    pub first: u16,
    /// How many; never 0.
    pub count: u16,
}

/// An interface that leads to other nodes and to the outside, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UplinkEntry {
    /// Its IPv4 address, or the node's.
    pub v4: Option<Ipv4Addr>,
    /// Its IPv6 address, or the node's.
    pub v6: Option<Ipv6Addr>,
    /// Bytes before the IP header.
    pub link_header: u8,
    /// Bytes of the longest packet between its network and a local pod that may go past the node's stack; 0: none may.
    pub routed_mtu: u32,
}

impl Record for SourceRangeKey {
    type Raw = types::source_range_key;

    fn to_raw(&self) -> Self::Raw {
        let bits = self.clients.map_or(0, |clients| {
            let mapped = if clients.address.is_ipv4() {
                MAPPED_BITS
            } else {
                0
            };
            u32::from(clients.prefix) + mapped
        });
        types::source_range_key {
            prefix: SERVICE_BITS + bits,
            service: self.service.to_raw(),
            client: self
                .clients
                .map_or_else(Default::default, |c| address::to_raw(c.address)),
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        let service = ServiceKey::from_raw(raw.service)?;
        let bits = raw.prefix.checked_sub(SERVICE_BITS)?;
        if bits == 0 {
            return Some(Self {
                service,
                clients: None,
            });
        }
        let first = address::from_raw(raw.client);
        let bits = match first {
            IpAddr::V4(_) => bits.checked_sub(MAPPED_BITS)?,
            IpAddr::V6(_) => bits,
        };
        Some(Self {
            service,
            clients: Some(Cidr::new(first, u8::try_from(bits).ok()?)?),
        })
    }
}

impl Record for LetIn {
    type Raw = u32;

    fn to_raw(&self) -> Self::Raw {
        self.0.into()
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self(raw != 0))
    }
}

impl Record for NatSettings {
    type Raw = types::nat_settings;

    fn to_raw(&self) -> Self::Raw {
        types::nat_settings {
            enabled: self.enabled.into(),
            first_port: self.ports.first.into(),
            ports: self.ports.count.into(),
            pad: 0,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        // An array's element that nobody has written yet is none.
        (raw.ports != 0).then_some(Self {
            enabled: raw.enabled == 1,
            ports: NodeSidePorts {
                first: u16::try_from(raw.first_port).ok()?,
                count: u16::try_from(raw.ports).ok()?,
            },
        })
    }
}

impl Record for UplinkEntry {
    type Raw = types::uplink;

    fn to_raw(&self) -> Self::Raw {
        let none = types::weft_addr::default;
        types::uplink {
            addr4: self.v4.map_or_else(none, |a| address::to_raw(a.into())),
            addr6: self.v6.map_or_else(none, |a| address::to_raw(a.into())),
            link_header: self.link_header.into(),
            routed_mtu: self.routed_mtu,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        let known = |raw: types::weft_addr| {
            let address = address::from_raw(raw);
            (!address.is_unspecified()).then_some(address)
        };
        let v4 = known(raw.addr4).and_then(|a| match a {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        });
        let v6 = known(raw.addr6).and_then(|a| match a {
            IpAddr::V6(v6) => Some(v6),
            IpAddr::V4(_) => None,
        });
        Some(Self {
            v4,
            v6,
            link_header: u8::try_from(raw.link_header).ok()?,
            routed_mtu: raw.routed_mtu,
        })
    }
}

impl NodeSidePorts {
    /// Below the ports that the kernel gives to the node's own sockets (`net.ipv4.ip_local_port_range`), from 1024 on, or above them:
    /// whichever are more. Without any outside of them, those.
    #[must_use]
    pub fn beside(local_first: u16, local_last: u16) -> Self {
        let span = |first: u16, last: u16| (first, last.saturating_sub(first));
        let below = span(1024, local_first);
        let above = span(local_last.saturating_add(1), u16::MAX);
        let own = span(local_first, local_last);
        let most = if below.1 >= above.1 { below } else { above };
        let (first, count) = if most.1 >= 1024 { most } else { own };
        Self {
            first,
            count: count.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_proto::model::{Protocol, Side};

    use super::*;

    #[test]
    fn ports_keep_clear_of_the_nodes_own() {
        let ports = |first, last| {
            let ports = NodeSidePorts::beside(first, last);
            (ports.first, ports.count)
        };
        assert_eq!(ports(32_768, 60_999), (1024, 31_744));
        assert_eq!(ports(1024, 20_000), (20_001, 45_534));
        // All are the kernel's.
        assert_eq!(ports(1024, 65_535), (1024, 64_511));
        assert_eq!(ports(1, u16::MAX), (1, 65_534));
    }

    #[test]
    fn records_come_back_as_they_were() {
        let service = ServiceKey {
            address: IpAddr::from([192, 0, 2, 1]),
            port: 80,
            protocol: Protocol::Tcp,
            side: Side::Outside,
        };
        let ranges = ["0.0.0.0/0", "198.51.100.0/24", "::/0", "2001:db8::/32"];
        for clients in ranges.map(|text| {
            let (address, prefix) = text.split_once('/').expect("prefix");
            Cidr::new(
                address.parse().expect("address"),
                prefix.parse().expect("bits"),
            )
        }) {
            let key = SourceRangeKey { service, clients };
            let back = SourceRangeKey::from_raw(key.to_raw()).expect("known");
            let all6 = clients.is_some_and(|c| c.address.is_ipv6() && c.prefix == 0);
            let expected = if all6 { None } else { clients };
            assert_eq!(back.clients, expected);
            assert_eq!(back.service, service);
        }
        let uplink = UplinkEntry {
            v4: Some(Ipv4Addr::new(192, 0, 2, 1)),
            v6: None,
            link_header: 14,
            routed_mtu: 1500,
        };
        assert_eq!(UplinkEntry::from_raw(uplink.to_raw()), Some(uplink));
        assert_eq!(NatSettings::from_raw(Default::default()), None);
    }
}
