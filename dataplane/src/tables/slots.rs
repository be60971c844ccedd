//! Map `slots`: where a slot leads.

use super::{BackendId, Slot};
use crate::bpf::{Record, types};

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
