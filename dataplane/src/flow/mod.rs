//! What happens to connections, told: the kernel's events get times and names, and are kept for those who ask.
//!
//! A thread reads the ring ([`crate::bpf`]), a task names what it read ([`pump`]), and the newest stay in a [`FlowLog`] that
//! any number of readers follow. Nothing in the kernel waits for any of them.

mod buckets;
mod clock;
mod edges;
mod enrich;
mod event;
mod filter;
mod log;
pub mod memory;
pub(crate) mod message;
mod metrics;
mod namer;
mod names;
mod owner;
pub(crate) mod protocol;
mod pump;
mod reason;
mod request;
mod request_metrics;
mod workloads;

pub use clock::Clock;
pub use event::{Direction, Event, EventKind};
pub use filter::{Filter, FilterError};
pub use log::{Chunk, Cursor, FlowLog, Flows};
pub use metrics::FlowMetrics;
pub use namer::{NamedEvent, Namer};
pub use names::{Names, RuleName};
pub use pump::{BATCH, EventSource, pump};
pub use reason::Reason;
pub use request::{JudgedRequest, Request};
pub use request_metrics::{AskedRequest, RequestCounts, RequestMetrics, count_requests};
pub use workloads::{WORKLOAD_PAIRS, WorkloadMetrics};

pub(crate) use edges::{Edge, opening};
pub(crate) use enrich::{endpoint, traffic};
pub(crate) use event::socket;
pub(crate) use message::{Decision, Ends};
pub(crate) use names::{object, shown};

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
pub(crate) mod tests;
