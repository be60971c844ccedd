//! Random clusters, changes to them, and connections at their boundaries. The same seed makes the same ones.
//!
//! Names, labels, ports and addresses come from small pools, so that policies meet what they are about; every object is one that
//! the API server would take.

mod authorization_policy;
mod change;
mod cidr;
mod cluster;
mod cluster_network_policy;
mod connection;
mod network_policy;
mod pool;
mod random;
mod request;
mod selector;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use change::change;
pub use cluster::{MAX_LOCAL_PODS, NODE, cluster};
pub use connection::Boundaries;
pub use random::Random;
pub use request::{ask_about_requests, request};
