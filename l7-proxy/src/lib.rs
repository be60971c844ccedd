//! The node's Envoy: finding it, configuring it, keeping it alive.
//!
//! What it serves comes from the control plane; here is what it needs to get there, and to be started again when it ends.
#![forbid(unsafe_code)]

mod admin;
mod bootstrap;
mod choice;
mod find;
mod log;
mod process;
mod supervisor;
mod upgrade;
mod version;

pub use bootstrap::{Bootstrap, CAPTURE_PORT};
pub use choice::{EnvoyChoice, INSTALLED};
pub use find::{Envoy, FindError, find};
pub use supervisor::{Supervisor, SupervisorError};
pub use version::{ParseVersionError, Version};
