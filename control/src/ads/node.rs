//! Who is at the other end of a stream.

use std::sync::Arc;

use tonic::Status;
use weft_proto::envoy::envoy::config::core::v3::Node;

use crate::auth::{Peer, node_name};

const MAX_ID_BYTES: usize = 256;

/// What Envoys call themselves, whoever runs them.
const ENVOY: &str = "envoy";

/// Who asks, as far as it decides what there is to see.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Name of a node, or of a part of one: `n1/envoy`.
    pub(super) id: Arc<str>,
    /// It has no use for what is the kernel's alone.
    pub(super) is_envoy: bool,
}

impl Client {
    /// The node that it is, or is a part of.
    pub(super) fn node(&self) -> &str {
        self.id.split_once('/').map_or(&*self.id, |(name, _)| name)
    }
}

/// A stream's node: told in its first request, and the same from then on.
#[derive(Debug)]
pub(super) struct NodeId {
    peer: Peer,
    client: Option<Client>,
}

impl NodeId {
    /// Of a stream whose other end has proved to be `peer`.
    pub(super) const fn new(peer: Peer) -> Self {
        Self { peer, client: None }
    }

    /// Notes the node of a request; only the first must have one.
    pub(super) fn note(&mut self, node: Option<&Node>) -> Result<Client, Status> {
        if let Some(client) = &self.client {
            let id = &client.id;
            if node.is_some_and(|n| !n.id.is_empty() && *n.id != **id) {
                return Err(Status::invalid_argument(format!(
                    "this stream is node.id {id}'s: another needs a stream of its own"
                )));
            }
            return Ok(client.clone());
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
        let client = Client {
            id: Arc::from(id),
            is_envoy: node.is_some_and(|n| n.user_agent_name == ENVOY),
        };
        self.client = Some(client.clone());
        Ok(client)
    }
}
