//! Which part of an array belongs to whom.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// Contiguous ranges of `0..capacity`, each with an owner. First fit; neighbours that are free become one.
#[derive(Debug)]
pub(crate) struct Arena<O> {
    capacity: u32,
    /// Start to end of every free range; no two touch.
    free: BTreeMap<u32, u32>,
    owned: HashMap<O, Range<u32>>,
}

impl<O: Eq + Hash + Copy> Arena<O> {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            capacity,
            free: BTreeMap::from([(0, capacity)]),
            owned: HashMap::new(),
        }
    }

    pub(crate) fn range(&self, owner: O) -> Option<Range<u32>> {
        self.owned.get(&owner).cloned()
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = (O, Range<u32>)> {
        self.owned
            .iter()
            .map(|(owner, range)| (*owner, range.clone()))
    }

    /// A range of `length` for `owner`, who has none yet; `None` when no free range is long enough.
    pub(crate) fn allocate(&mut self, owner: O, length: u32) -> Option<Range<u32>> {
        let (start, end) = self
            .free
            .iter()
            .map(|(start, end)| (*start, *end))
            .find(|(start, end)| end - start >= length)?;
        self.free.remove(&start);
        if start + length < end {
            self.free.insert(start + length, end);
        }
        self.owned.insert(owner, start..start + length);
        self.range(owner)
    }

    /// Notes a range that `owner` has from earlier on; false when it is not free.
    pub(crate) fn adopt(&mut self, owner: O, range: Range<u32>) -> bool {
        let Some((start, end)) = self
            .free
            .range(..=range.start)
            .next_back()
            .map(|(start, end)| (*start, *end))
            .filter(|(_, end)| range.end <= *end)
        else {
            return false;
        };
        self.free.remove(&start);
        if start < range.start {
            self.free.insert(start, range.start);
        }
        if range.end < end {
            self.free.insert(range.end, end);
        }
        self.owned.insert(owner, range);
        true
    }

    /// Gives the owner's range back, if it has one.
    pub(crate) fn release(&mut self, owner: O) {
        let Some(Range { mut start, mut end }) = self.owned.remove(&owner) else {
            return;
        };
        if let Some(after) = self.free.remove(&end) {
            end = after;
        }
        if let Some((before, _)) = self
            .free
            .range(..start)
            .next_back()
            .map(|(s, e)| (*s, *e))
            .filter(|(_, e)| *e == start)
        {
            start = before;
        }
        self.free.insert(start, end);
    }

    pub(crate) const fn capacity(&self) -> u32 {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_adopted_and_freed() {
        let mut arena = Arena::new(10);
        assert!(arena.adopt('a', 3..6));
        assert!(!arena.adopt('b', 5..7), "overlaps");
        assert!(!arena.adopt('b', 8..11), "beyond the end");
        assert_eq!(arena.allocate('b', 4), Some(6..10));
        assert_eq!(arena.allocate('c', 4), None, "only 0..3 is free");
        arena.release('a');
        assert_eq!(arena.allocate('c', 6), Some(0..6), "neighbours became one");
    }

    proptest! {
        /// Against a plain map of cells: no range overlaps another, and all that is free can be had again.
        #[test]
        fn no_cell_is_given_twice_or_lost(steps in prop::collection::vec((0u8..12, 1u32..20), 1..200)) {
            let mut arena = Arena::new(64);
            let mut cells = [None; 64];
            for (owner, length) in steps {
                if arena.range(owner).is_some() {
                    arena.release(owner);
                    cells.iter_mut().filter(|c| **c == Some(owner)).for_each(|c| *c = None);
                } else if let Some(range) = arena.allocate(owner, length) {
                    prop_assert_eq!(range.len(), length as usize);
                    for cell in &mut cells[range.start as usize..range.end as usize] {
                        prop_assert_eq!(cell.replace(owner), None);
                    }
                } else {
                    let longest = cells.chunk_by(|a, b| a.is_none() && b.is_none())
                        .filter(|run| run[0].is_none())
                        .map(<[_]>::len)
                        .max()
                        .unwrap_or(0);
                    prop_assert!(longest < length as usize, "{longest} cells in a row were free");
                }
            }
            for owner in 0..12 {
                arena.release(owner);
            }
            prop_assert_eq!(arena.allocate(0, 64), Some(0..64));
        }
    }
}
