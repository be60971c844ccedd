//! The node's Envoy: finding it, configuring it, keeping it alive.
//!
//! Nothing is handed to Envoy in this version; what is here finds the binary and makes sure that it runs, so that
//! `weft doctor` can say which one layer 7 will use.
#![forbid(unsafe_code)]

mod choice;
mod find;
mod version;

pub use choice::{EnvoyChoice, INSTALLED};
pub use find::{Envoy, FindError, find};
pub use version::{ParseVersionError, Version};
