//! What stands in `mtls_modes`, and what the kernel is told of it in all, known at any time without going over it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use weft_proto::model::MtlsMode;

use crate::tables::mtls::{Mode, ModeKey};

/// The table's content.
#[derive(Debug, Default)]
pub(super) struct Written {
    modes: BTreeMap<ModeKey, Mode>,
    /// Of these, those of local pods.
    here: usize,
    /// Of these, those that require mTLS.
    strict: BTreeSet<ModeKey>,
}

impl Written {
    pub(super) fn len(&self) -> usize {
        self.modes.len()
    }

    /// Whether there are local pods.
    pub(super) const fn any_here(&self) -> bool {
        self.here > 0
    }

    /// Whether there are pods of other nodes.
    pub(super) fn any_elsewhere(&self) -> bool {
        self.here < self.modes.len()
    }

    /// Local entries that require mTLS.
    pub(super) const fn strict(&self) -> &BTreeSet<ModeKey> {
        &self.strict
    }

    pub(super) fn get(&self, key: &ModeKey) -> Option<&Mode> {
        self.modes.get(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ModeKey> {
        self.modes.keys()
    }

    pub(super) fn within(&self, range: RangeInclusive<ModeKey>) -> impl Iterator<Item = &ModeKey> {
        self.modes.range(range).map(|(key, _)| key)
    }

    pub(super) fn insert(&mut self, key: ModeKey, mode: Mode) {
        self.remove(&key);
        self.modes.insert(key, mode);
        self.here += usize::from(mode.here);
        if mode.here && mode.mode == MtlsMode::Strict {
            self.strict.insert(key);
        }
    }

    pub(super) fn remove(&mut self, key: &ModeKey) {
        let old = self.modes.remove(key);
        self.here -= usize::from(old.is_some_and(|mode| mode.here));
        self.strict.remove(key);
    }
}

impl FromIterator<(ModeKey, Mode)> for Written {
    fn from_iter<I: IntoIterator<Item = (ModeKey, Mode)>>(entries: I) -> Self {
        let mut all = Self::default();
        for (key, mode) in entries {
            all.insert(key, mode);
        }
        all
    }
}
