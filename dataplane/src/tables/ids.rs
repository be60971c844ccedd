//! Maps `ids` and `cursors`, and the bare integers that are keys or values.

use super::{AllocatedIds, ServiceId};
use crate::bpf::{Record, types};

impl Record for u8 {
    type Raw = u8;

    fn to_raw(&self) -> u8 {
        *self
    }

    fn from_raw(raw: u8) -> Option<Self> {
        Some(raw)
    }
}

impl Record for u32 {
    type Raw = u32;

    fn to_raw(&self) -> u32 {
        *self
    }

    fn from_raw(raw: u32) -> Option<Self> {
        Some(raw)
    }
}

impl Record for u64 {
    type Raw = u64;

    fn to_raw(&self) -> u64 {
        *self
    }

    fn from_raw(raw: u64) -> Option<Self> {
        Some(raw)
    }
}

impl Record for ServiceId {
    type Raw = u32;

    fn to_raw(&self) -> u32 {
        self.0
    }

    fn from_raw(raw: u32) -> Option<Self> {
        Some(Self(raw))
    }
}

impl Record for AllocatedIds {
    type Raw = types::id_allocator;

    fn to_raw(&self) -> Self::Raw {
        types::id_allocator {
            next_service: self.next_service,
            next_backend: self.next_backend,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            next_service: raw.next_service,
            next_backend: raw.next_backend,
        })
    }
}
