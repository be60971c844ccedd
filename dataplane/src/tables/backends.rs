//! Maps `backends` and `backend_loads`: where connections go, and how many went.

use std::net::SocketAddr;

use super::{BackendEntry, BackendId, BackendLoad, ServiceId, address};
use crate::bpf::{Record, types};

impl Record for BackendId {
    type Raw = u32;

    fn to_raw(&self) -> u32 {
        self.0
    }

    fn from_raw(raw: u32) -> Option<Self> {
        Some(Self(raw))
    }
}

const ACCEPTS: u16 = types::backend_flags::BACKEND_ACCEPTS.0 as u16;

impl Record for BackendEntry {
    type Raw = types::backend;

    fn to_raw(&self) -> Self::Raw {
        types::backend {
            addr: address::to_raw(self.address.ip()),
            port: self.address.port().to_be(),
            flags: if self.accepts { ACCEPTS } else { 0 },
            service: self.service.0,
            weight: self.weight,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            address: SocketAddr::new(address::from_raw(raw.addr), u16::from_be(raw.port)),
            service: ServiceId(raw.service),
            weight: raw.weight,
            accepts: raw.flags & ACCEPTS != 0,
        })
    }
}

impl Record for BackendLoad {
    type Raw = types::backend_load;

    fn to_raw(&self) -> Self::Raw {
        types::backend_load {
            open: self.open,
            total: self.total,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            open: raw.open,
            total: raw.total,
        })
    }
}
