//! EndpointSlices.

use std::net::IpAddr;
use std::sync::Arc;

use weft_proto::model::Health;

use super::{ObjectName, SlicePort};

/// One endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// The first of its addresses: all of them mean the same endpoint.
    pub address: IpAddr,
    /// From its conditions.
    pub health: Health,
    /// `nodeName`; empty when it has none.
    pub node: String,
    /// `zone`; empty when it has none.
    pub zone: String,
    /// The pod in `targetRef`.
    pub pod: Option<ObjectName>,
}

/// Some of a service's endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// Label `kubernetes.io/service-name`.
    pub service: Arc<str>,
    /// The ports every endpoint of the slice listens on.
    pub ports: Vec<SlicePort>,
    /// Its endpoints.
    pub endpoints: Vec<SliceEndpoint>,
}
