//! Domain model to xDS resource and back.
//!
//! Decoding is strict about what would change where traffic goes: a field that this mesh cannot honour is an error that names
//! it, so that the agent refuses the resource instead of doing half of it. Fields that only Envoy itself needs are passed over.

mod access_log;
mod address;
mod api_listener;
mod balance;
mod cidr;
mod cluster;
mod duration;
mod endpoints;
mod http;
mod inbound;
mod limits;
mod listener;
mod managers;
mod metadata;
mod outside;
mod policy;
mod problem;
pub mod request_log;
mod resource;
mod route;
pub mod tracing;
mod tunnel;
mod workload;

use envoy_types::pb::google::protobuf::Any;
use prost::{Message, Name};

pub use api_listener::{encode_api_listener, encode_client_routes};
pub use cluster::{decode_cluster, encode_cluster};
pub use endpoints::{decode_endpoints, encode_endpoints};
pub use inbound::{encode_guard, encode_inbound};
pub use listener::{decode_listener, encode_listener};
pub use policy::{closed_policies, decode_policy, decode_rule, encode_policy};
pub use problem::{decode_problem, encode_problem};
pub use resource::{decode, encode};
pub use route::encode_routes;
pub use tunnel::{ENTRY_PORT, TUNNEL_PORT, encode_tunnel_cluster, encode_tunnel_listener};
pub use workload::{decode_workload, encode_workload};

/// A resource that cannot be used, and the field that says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct ConvertError {
    /// Path in the protobuf message, as in "filter_chains[0].filters[0]".
    pub field: String,
    /// What is wrong and what would be accepted.
    pub reason: String,
}

impl ConvertError {
    fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }

    /// The same error seen from a message that holds this one in `field`.
    fn within(mut self, field: &str) -> Self {
        self.field = if self.field.is_empty() {
            field.to_owned()
        } else {
            format!("{field}.{}", self.field)
        };
        self
    }
}

/// Decodes the message inside `any`, whose type URL the caller has looked at.
///
/// # Errors
/// When the bytes are not a `T`.
pub fn unpack<T: Message + Default>(any: &Any, field: &str) -> Result<T, ConvertError> {
    T::decode(any.value.as_slice())
        .map_err(|e| ConvertError::new(field, format!("cannot be decoded: {e}")))
}

fn pack<T: Message + Name>(message: &T) -> Any {
    Any {
        type_url: T::type_url(),
        value: message.encode_to_vec(),
    }
}
