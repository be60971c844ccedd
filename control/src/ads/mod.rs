//! Aggregated discovery service (ADS), delta and state of the world.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol>.

mod back_end;
mod batch;
mod content;
mod delta;
mod history;
mod ids;
mod nack;
mod node;
mod server;
mod sotw;
mod store;
mod stream;
mod subscription;

pub use back_end::Stores;
pub use batch::Batch;
pub use nack::{Nack, Nacks};
pub use server::AdsServer;
pub use store::{Entry, Store, Table, Version};
