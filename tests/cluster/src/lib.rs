//! Real Kubernetes for tests and benchmarks.
//!
//! [`ControlPlane`] is etcd and kube-apiserver on a node of a lab: what a client of the API needs, up in seconds. The
//! programs are built once by `scripts/install-kubernetes`.
#![forbid(unsafe_code)]

mod api;
pub mod binaries;
pub mod mesh;
pub mod objects;
mod pki;
mod server;
pub mod yaml;

pub use api::Api;
pub use server::{ControlPlane, Options, User};
