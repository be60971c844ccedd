//! Map `slots`: (service id, generation, index) to the backend or its alias.

use super::{BackendId, Generation, ServiceId, Slot, SlotKey};
use crate::bpf::{Record, types};

impl Record for SlotKey {
    type Raw = types::slot_key;

    fn to_raw(&self) -> Self::Raw {
        types::slot_key {
            service: self.service.0,
            generation: self.generation.0,
            index: self.index,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            service: ServiceId(raw.service),
            generation: Generation(raw.generation),
            index: raw.index,
        })
    }
}

impl Record for Slot {
    type Raw = types::slot;

    fn to_raw(&self) -> Self::Raw {
        types::slot {
            backend: self.backend.0,
            alias: self.alias.0,
            threshold: self.threshold,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            backend: BackendId(raw.backend),
            alias: BackendId(raw.alias),
            threshold: raw.threshold,
        })
    }
}
