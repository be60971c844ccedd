//! Frames that nobody sends by accident: a corpus that people read, and a mutator that starts from it.

mod corpus;
mod mutate;

pub use corpus::{Entry, Expectation, ReadError, corpus};
pub use mutate::mutate;
