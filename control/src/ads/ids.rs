//! Sets of a table's names, in a bit each: a stream that has all of a large table costs kilobytes.

use fixedbitset::FixedBitSet;

use super::store::Id;

/// A set of ids of one table.
#[derive(Debug, Default)]
pub(super) struct Ids(FixedBitSet);

impl Ids {
    pub(super) fn contains(&self, id: Id) -> bool {
        self.0.contains(id)
    }

    pub(super) fn insert(&mut self, id: Id) {
        self.0.grow_and_insert(id);
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, id: Id) -> bool {
        let was_there = self.0.contains(id);
        if was_there {
            self.0.set(id, false);
        }
        was_there
    }

    /// Leaves only what `other` has as well.
    pub(super) fn retain(&mut self, other: &Self) {
        self.0.intersect_with(&other.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_clear()
    }

    pub(super) fn len(&self) -> usize {
        self.0.count_ones(..)
    }

    /// In ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Id> {
        self.0.ones()
    }
}
