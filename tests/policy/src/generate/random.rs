//! Choices, repeatable from a seed.

use std::ops::RangeInclusive;

/// A source of choices.
#[derive(Clone, Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// The same choices for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Both bounds included.
    pub fn number(&mut self, range: RangeInclusive<usize>) -> usize {
        self.0.usize(range)
    }

    /// Any bits.
    pub fn bits(&mut self) -> u128 {
        self.0.u128(..)
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.0.usize(..times) == 0
    }

    /// One of them; there has to be one.
    pub fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.0.usize(..all.len())].clone()
    }

    /// So many made ones.
    pub fn many<T>(
        &mut self,
        count: RangeInclusive<usize>,
        mut make: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        (0..self.number(count)).map(|_| make(self)).collect()
    }

    /// Absent once in so many times.
    pub fn unless_one_in<T>(
        &mut self,
        times: usize,
        make: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        (!self.one_in(times)).then(|| make(self))
    }
}
