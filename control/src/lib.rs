//! Control plane: cluster state to xDS.
//!
//! A [`source`] tells of Kubernetes objects, [`read`] checks them, the [`model`] indexes them, [`translate`] makes resources of
//! them, and [`ads`] serves those to node agents and to Envoys.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod ads;
pub mod auth;
pub mod ca;
mod engine;
mod feedback;
mod http;
mod inbound;
pub mod model;
pub mod object;
mod plane;
pub mod read;
pub mod source;
mod status;
mod tls;
pub mod translate;

pub use engine::{Engine, Nodes, Settings};
pub use plane::{Config, ControlError, ControlPlane, SourceConfig, Trusting};
pub use status::Status;
pub use tls::TlsError;
