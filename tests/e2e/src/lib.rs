//! What the end-to-end tests share: a lab with the real `weft` on its nodes, statistics, and an ADS server to be nasty with.
//!
//! Every test runs the binary that users run, in a lab of its own, and judges by what clients and servers see.
#![forbid(unsafe_code)]

pub mod accel;
pub mod ads;
pub mod browser;
pub mod certificates;
pub mod channel;
pub mod collector;
pub mod counters;
pub mod crowd;
pub mod envoy;
pub mod gopeer;
pub mod http;
pub mod joined;
pub mod mesh;
pub mod nginx;
pub mod otelcol;
pub mod prometheus;
pub mod reach;
pub mod samples;
pub mod stats;
pub mod town;
pub mod wait;

pub use mesh::Mesh;
pub use wait::eventually;

/// Result of a test.
pub type Result<T = (), E = anyhow::Error> = std::result::Result<T, E>;
