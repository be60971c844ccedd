//! The load generator: one client and one server for all peers, so that what
//! differs between two figures is the path between them.
//!
//! Both run as processes of their own (`weft-bench client`, `weft-bench serve`)
//! inside a pod's network namespace and cgroup. The client takes one [`Job`] per
//! line on a unix socket and answers each with one [`Outcome`] line.

mod blocking;
mod client;
mod connect;
mod job;
mod landing;
mod paced;
mod polled;
mod request;
mod server;
mod wire;

pub use blocking::serve as serve_blocking;
pub use client::run as client;
pub use job::{
    Blocking, Connections, Job, Landing, Latency, Outcome, Paced, Polled, Range, Requests, Targets,
};
pub use polled::serve as serve_polled;
pub use server::run as serve;
pub use wire::now_ns;
