//! Map `services`: (VIP, port, protocol) to how its connections are spread.

use weft_proto::model::{LbPolicy, Protocol, Side};

use super::{BackendId, Generation, ServiceEntry, ServiceFlags, ServiceId, ServiceKey};
use crate::bpf::{Record, types};
use crate::tables::address;

impl Record for ServiceKey {
    type Raw = types::service_key;

    fn to_raw(&self) -> Self::Raw {
        types::service_key {
            addr: address::to_raw(self.address),
            port: self.port.to_be(),
            protocol: self.protocol.number(),
            outside: u8::from(self.side == Side::Outside),
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        let protocol = [Protocol::Tcp, Protocol::Udp]
            .into_iter()
            .find(|p| p.number() == raw.protocol)?;
        Some(Self {
            address: address::from_raw(raw.addr),
            port: u16::from_be(raw.port),
            protocol,
            side: match raw.outside {
                0 => Side::Inside,
                _ => Side::Outside,
            },
        })
    }
}

const POLICIES: [(LbPolicy, types::lb_policy); 4] = [
    (LbPolicy::Random, types::lb_policy::LB_RANDOM),
    (LbPolicy::RoundRobin, types::lb_policy::LB_ROUND_ROBIN),
    (LbPolicy::LeastRequest, types::lb_policy::LB_LEAST_REQUEST),
    (LbPolicy::Maglev, types::lb_policy::LB_MAGLEV),
];

impl Record for ServiceEntry {
    type Raw = types::service;

    fn to_raw(&self) -> Self::Raw {
        let policy = POLICIES
            .into_iter()
            .find(|(policy, _)| *policy == self.policy)
            .map_or(0, |(_, raw)| raw.0);
        types::service {
            id: self.id.0,
            generation: self.generation.0,
            base: 0,
            slots: self.slots,
            policy,
            affinity_s: self.affinity_seconds,
            near: self.near.0,
            flags: self.flags.0,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        let (policy, _) = POLICIES.into_iter().find(|(_, p)| p.0 == raw.policy)?;
        Some(Self {
            id: ServiceId(raw.id),
            generation: Generation(raw.generation),
            slots: raw.slots,
            policy,
            affinity_seconds: raw.affinity_s,
            near: BackendId(raw.near),
            flags: ServiceFlags(raw.flags),
        })
    }
}
