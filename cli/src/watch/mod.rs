//! Who talks to whom, followed over time: what `weft top` and `weft ui` show.
//!
//! Each agent is asked every second for its counts ([`poll`]); a [`History`] keeps some of the answers, and the difference of two
//! of them is what happened in between ([`rates`]), merged over agents.

mod counts;
mod history;
mod poll;
mod quantile;
mod rates;

pub(crate) use counts::{Counts, Key, Side};
pub(crate) use history::{Between, History};
pub(crate) use poll::{AgentState, Watch};
pub(crate) use quantile::Quantiles;
pub(crate) use rates::{Name, Pair, Total, pairs, services};

#[cfg(test)]
mod tests;
