//! Conditions made of conditions, over whatever the single ones are and whatever they are asked about.

use super::tri::Tri;

/// A condition over single conditions `L`.
#[derive(Clone, Debug)]
pub(crate) enum Tree<L> {
    Constant(Tri),
    Leaf(L),
    All(Vec<Self>),
    OneOf(Vec<Self>),
    Not(Box<Self>),
}

/// What an answer has to allow for answers to be combined.
pub(crate) trait Logic: Sized {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn not(self) -> Self;
}

impl<L> Tree<L> {
    /// The answer, given those of the single conditions.
    pub(crate) fn answer<V: Logic>(
        &self,
        constant: &impl Fn(Tri) -> V,
        leaf: &impl Fn(&L) -> V,
    ) -> V {
        match self {
            Self::Constant(value) => constant(*value),
            Self::Leaf(single) => leaf(single),
            Self::All(list) => {
                let answers = list.iter().map(|tree| tree.answer(constant, leaf));
                answers
                    .reduce(Logic::and)
                    .unwrap_or_else(|| constant(Tri::Yes))
            }
            Self::OneOf(list) => {
                let answers = list.iter().map(|tree| tree.answer(constant, leaf));
                answers
                    .reduce(Logic::or)
                    .unwrap_or_else(|| constant(Tri::No))
            }
            Self::Not(tree) => tree.answer(constant, leaf).not(),
        }
    }

    /// Every single condition in it.
    pub(crate) fn leaves<'a>(&'a self, visit: &mut impl FnMut(&'a L)) {
        match self {
            Self::Constant(_) => {}
            Self::Leaf(single) => visit(single),
            Self::All(list) | Self::OneOf(list) => list.iter().for_each(|tree| tree.leaves(visit)),
            Self::Not(tree) => tree.leaves(visit),
        }
    }
}

impl Logic for Tri {
    fn and(self, other: Self) -> Self {
        self.min(other)
    }

    fn or(self, other: Self) -> Self {
        self.max(other)
    }

    fn not(self) -> Self {
        Self::not(self)
    }
}
