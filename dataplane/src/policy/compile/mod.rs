//! From policies to functions over protocol and port, one for each kind of peer: pure functions, no I/O.
//!
//! A [`CompiledPolicy`] has its conditions sorted by whom they are about. A [`Plan`] is what judges one workload and direction: the
//! policies that select it, in order, with what they say of the workload itself already answered. A [`CompiledSet`] is a plan
//! over all identities.

mod chain;
mod fact;
mod own;
mod plan;
mod policy;
mod set;
mod steps;
mod text;
mod tree;
mod tri;

pub(crate) use chain::Decision;
pub(crate) use fact::Fact;
pub(crate) use own::Own;
pub(crate) use plan::{Part, Plan};
pub(crate) use policy::{CompiledPolicy, asks_proxy};
pub(crate) use set::{CompiledSet, DEFAULT, FunctionIndex};
pub(crate) use steps::Steps;
pub(crate) use text::Text;
pub(crate) use tree::{Logic, Tree};
pub(crate) use tri::Tri;
