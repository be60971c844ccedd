//! Nodes and pods as network namespaces, for tests and the demo.
//!
//! A [`Lab`] is a small cluster on one machine that touches nothing outside itself: each node is a network
//! namespace joined to a bridge in a fabric namespace, each pod a network namespace joined to its node by veth, as the
//! `ptp` CNI plugin does it. Every pod has its own cgroup below its node's, so an agent attached to
//! [`Node::cgroup`] sees exactly that node's pods. All of it is named after the lab, and goes away when the lab is
//! dropped, also on panic; what a killed owner left behind is removed when the next lab starts.
//!
//! ```no_run
//! use std::time::Duration;
//! use weft_lab::{Lab, PodSpec, ServeOptions, GetOptions};
//!
//! let lab = Lab::builder()
//!     .node("n1")
//!     .node("n2")
//!     .pod(PodSpec::new("client", "n1"))
//!     .pod(PodSpec::new("web", "n2").label("app", "web"))
//!     .build()?;
//! let web = lab.pod("web")?;
//! let _server = web.serve(&ServeOptions::tcp(8080))?;
//! let answers = lab.pod("client")?.get(web.socket_v4(8080), &GetOptions::default())?;
//! assert_eq!(answers[0].server.as_deref(), Some("web"));
//! # Ok::<(), weft_lab::LabError>(())
//! ```
//!
//! Needs root, a cgroup v2 mount (hybrid layouts too), veth, bridge and iproute2.
#![forbid(unsafe_code)]

pub mod addr;
pub mod bpffs;
mod builder;
pub mod cgroup;
pub mod client;
mod error;
mod lab;
mod launch;
pub mod manifest;
pub mod naive;
pub mod netns;
mod node;
mod output;
mod owner;
mod pod;
pub mod probe;
mod process;
mod registry;
mod teardown;
pub mod tools;
mod topology;
pub mod weft;

pub use addr::DualStack;
pub use builder::LabBuilder;
pub use client::{GetOptions, Hold, Load, LoadOptions, ServeOptions};
pub use error::LabError;
pub use lab::Lab;
pub use launch::{Launch, Place};
pub use manifest::Manifests;
pub use node::Node;
pub use output::Output;
pub use pod::{Pod, PodSpec};
pub use process::Process;
pub use weft::{Weft, WeftOptions};

/// Result with [`LabError`].
pub type Result<T, E = LabError> = std::result::Result<T, E>;
