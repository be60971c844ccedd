//! Maps `backends` and `backend_loads`: where connections go, and how many went.

use std::net::SocketAddr;

use super::{BackendEntry, BackendId, BackendLoad, ServiceId, address};
use crate::bpf::{Placed, Record, types};

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

impl Record for types::backend {
    type Raw = Self;

    fn to_raw(&self) -> Self {
        *self
    }

    fn from_raw(raw: Self) -> Option<Self> {
        Some(raw)
    }
}

impl Placed for BackendEntry {
    type Cell = types::backend;

    fn to_cell(self, id: BackendId) -> Self::Cell {
        types::backend {
            id: id.0,
            service: self.service.0,
            addr: address::to_raw(self.address.ip()),
            weight: self.weight,
            port: self.address.port().to_be(),
            flags: if self.accepts { ACCEPTS } else { 0 },
        }
    }

    fn from_cell(cell: Self::Cell) -> Option<(BackendId, Self)> {
        let entry = Self {
            address: SocketAddr::new(address::from_raw(cell.addr), u16::from_be(cell.port)),
            service: ServiceId(cell.service),
            weight: cell.weight,
            accepts: cell.flags & ACCEPTS != 0,
        };
        (cell.id != 0).then_some((BackendId(cell.id), entry))
    }
}

impl Record for types::backend_load {
    type Raw = Self;

    fn to_raw(&self) -> Self {
        *self
    }

    fn from_raw(raw: Self) -> Option<Self> {
        Some(raw)
    }
}

impl Placed for BackendLoad {
    type Cell = types::backend_load;

    fn to_cell(self, id: BackendId) -> Self::Cell {
        types::backend_load {
            open: self.open,
            total: self.total,
            id: id.0,
            srtt_us: self.srtt_us,
        }
    }

    fn from_cell(cell: Self::Cell) -> Option<(BackendId, Self)> {
        let load = Self {
            open: cell.open,
            total: cell.total,
            srtt_us: cell.srtt_us,
        };
        (cell.id != 0).then_some((BackendId(cell.id), load))
    }
}
