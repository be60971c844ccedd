//! The agent's local interface: gRPC over `<run-dir>/agent.sock`, which only its owner may open.

mod client;
mod edges;
mod flows;
mod gather;
mod lock;
mod service;
mod status;

pub use client::{ConnectError, connect};
pub use flows::Observed;
pub(crate) use gather::gather;
pub use lock::{LockError, RunDir};
pub use service::{AdminService, serve};
pub use status::{AgentFacts, SharedFacts};
pub(crate) use status::{reasons, snapshot};

#[cfg(test)]
mod tests;
