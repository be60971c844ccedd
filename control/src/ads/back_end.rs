//! For which back end of a node a stream is.

use std::sync::Arc;

use tonic::metadata::MetadataMap;
use weft_proto::resource::{BACK_END, BACK_END_ENVOY};

use super::Store;

/// What is published, once for each back end.
#[derive(Clone, Debug, Default)]
pub struct Stores {
    /// Everything, for agents and whoever else asks.
    pub agents: Arc<Store>,
    /// What the nodes' Envoys need: the service ports of layer 7, and what these refer to.
    pub envoys: Arc<Store>,
}

impl Stores {
    /// The one that a stream with this metadata is served from.
    pub(super) fn of(&self, metadata: &MetadataMap) -> &Arc<Store> {
        let is_envoy = metadata
            .get(BACK_END)
            .is_some_and(|back_end| back_end.as_bytes() == BACK_END_ENVOY.as_bytes());
        if is_envoy { &self.envoys } else { &self.agents }
    }
}
