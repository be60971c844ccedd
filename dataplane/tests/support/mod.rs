//! What several tests need.

pub(crate) mod bridge;
pub(crate) mod node;
