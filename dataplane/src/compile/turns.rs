//! Who comes next, when each comes in proportion to its weight and nobody twice in a row without need.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Endless sequence of indices: the k-th turn of an index is due at `(k + 1/2) / weight`, and the earliest due comes first.
///
/// Within each stretch of `sum(weights)` turns every index appears exactly `weight` times, evenly spread.
pub(super) struct Turns<'a> {
    weights: &'a [u32],
    due: BinaryHeap<Reverse<(u64, u32)>>,
    taken: Vec<u32>,
}

impl<'a> Turns<'a> {
    /// Over weights of at least 1.
    pub(super) fn new(weights: &'a [u32]) -> Self {
        let due = (0u32..)
            .zip(weights)
            .map(|(index, weight)| Reverse((due(0, *weight), index)))
            .collect();
        Self {
            weights,
            due,
            taken: vec![0; weights.len()],
        }
    }
}

impl Iterator for Turns<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let mut top = self.due.peek_mut()?;
        let Reverse((_, index)) = *top;
        let taken = &mut self.taken[index as usize];
        *taken = taken.wrapping_add(1);
        *top = Reverse((due(*taken, self.weights[index as usize]), index));
        Some(index)
    }
}

/// In units of 2^-33. Floor keeps order at whole multiples: turn `weight - 1` stays below 1 and turn `weight` at or above.
fn due(turn: u32, weight: u32) -> u64 {
    ((u128::from(turn) * 2 + 1) << 32)
        .checked_div(u128::from(weight))
        .and_then(|due| u64::try_from(due).ok())
        .unwrap_or(u64::MAX)
}
