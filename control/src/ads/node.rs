//! Who is at the other end of a stream.

use std::sync::Arc;

use tonic::Status;
use weft_proto::envoy::envoy::config::core::v3::Node;

use crate::auth::{Peer, node_name};

const MAX_ID_BYTES: usize = 256;

/// A stream's node: told in its first request, and the same from then on.
#[derive(Debug)]
pub(super) struct NodeId {
    peer: Peer,
    id: Option<Arc<str>>,
}

impl NodeId {
    /// Of a stream whose other end has proved to be `peer`.
    pub(super) const fn new(peer: Peer) -> Self {
        Self { peer, id: None }
    }

    /// Notes the node of a request; only the first must have one.
    pub(super) fn note(&mut self, node: Option<&Node>) -> Result<Arc<str>, Status> {
        if let Some(id) = &self.id {
            if node.is_some_and(|n| !n.id.is_empty() && *n.id != **id) {
                return Err(Status::invalid_argument(format!(
                    "this stream is node.id {id}'s: another needs a stream of its own"
                )));
            }
            return Ok(Arc::clone(id));
        }
        let id = node.map_or("", |n| n.id.as_str());
        if id.is_empty() {
            return Err(Status::invalid_argument(
                "the first request of a stream must carry node.id",
            ));
        }
        if id.len() > MAX_ID_BYTES {
            return Err(Status::invalid_argument(format!(
                "node.id is longer than {MAX_ID_BYTES} bytes"
            )));
        }
        let claimed = self.peer.claim(node_name(id));
        claimed.map_err(|e| Status::permission_denied(e.to_string()))?;
        let id: Arc<str> = Arc::from(id);
        self.id = Some(Arc::clone(&id));
        Ok(id)
    }
}
