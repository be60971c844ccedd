//! Who is at the other end of a stream.

use std::sync::Arc;

use tonic::Status;
use weft_proto::envoy::envoy::config::core::v3::Node;

const MAX_ID_BYTES: usize = 256;

/// A stream's node: told in its first request, and the same from then on.
#[derive(Debug, Default)]
pub(super) struct NodeId(Option<Arc<str>>);

impl NodeId {
    /// Notes the node of a request; only the first must have one.
    pub(super) fn note(&mut self, node: Option<&Node>) -> Result<Arc<str>, Status> {
        if let Some(id) = &self.0 {
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
        let id: Arc<str> = Arc::from(id);
        self.0 = Some(Arc::clone(&id));
        Ok(id)
    }
}
