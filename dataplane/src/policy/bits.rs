//! Sets of small numbers.

/// A set of numbers below some bound, as bits. Sets of different lengths mix: what is beyond the end is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

const WORD: usize = u64::BITS as usize;

impl Bits {
    /// All numbers below `end`, rounded up to a whole word.
    pub(crate) fn all(end: usize) -> Self {
        Self {
            words: vec![u64::MAX; end.div_ceil(WORD)],
        }
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        self.words
            .get(number / WORD)
            .is_some_and(|word| word >> (number % WORD) & 1 == 1)
    }

    pub(crate) fn insert(&mut self, number: usize) {
        self.grow(number / WORD + 1);
        if let Some(word) = self.words.get_mut(number / WORD) {
            *word |= 1 << (number % WORD);
        }
    }

    pub(crate) fn remove(&mut self, number: usize) {
        if let Some(word) = self.words.get_mut(number / WORD) {
            *word &= !(1 << (number % WORD));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.grow(other.words.len());
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    pub(crate) fn keep(&mut self, other: &Self) {
        let others = other.words.iter().chain(std::iter::repeat(&0));
        for (word, kept) in self.words.iter_mut().zip(others) {
            *word &= kept;
        }
    }

    /// What is below `end` and not in it.
    pub(crate) fn complement(&self, end: usize) -> Self {
        let mut all = Self::all(end);
        for (word, taken) in all.words.iter_mut().zip(&self.words) {
            *word &= !taken;
        }
        all
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(index * WORD + bit)
            })
        })
    }

    fn grow(&mut self, words: usize) {
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bits(set: &BTreeSet<usize>) -> Bits {
        let mut bits = Bits::default();
        set.iter().for_each(|number| bits.insert(*number));
        bits
    }

    fn set(bits: &Bits) -> BTreeSet<usize> {
        bits.iter().collect()
    }

    proptest! {
        #[test]
        fn behave_as_sets(
            a in prop::collection::btree_set(0usize..300, 0..40),
            b in prop::collection::btree_set(0usize..300, 0..40),
        ) {
            prop_assert_eq!(set(&bits(&a)), a.clone());
            let mut or = bits(&a);
            or.add(&bits(&b));
            prop_assert_eq!(set(&or), &a | &b);
            let mut and = bits(&a);
            and.keep(&bits(&b));
            prop_assert_eq!(set(&and), &a & &b);
            let not = bits(&a).complement(320);
            prop_assert_eq!(set(&not), &(0..320).collect() - &a);
            let mut less = bits(&a);
            b.iter().for_each(|number| less.remove(*number));
            prop_assert_eq!(set(&less), &a - &b);
            prop_assert_eq!(bits(&a).is_empty(), a.is_empty());
            prop_assert!((0..300).all(|number| bits(&a).has(number) == a.contains(&number)));
        }
    }
}
