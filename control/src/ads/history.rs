//! What was sent lately, so that an answer to it can be understood.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_proto::resource::ResourceType;

/// A client that is this far behind with its answers gets no resource names in its NACKs.
const MAX_RESPONSES: usize = 32;

/// One response.
#[derive(Debug)]
pub(super) struct Sent {
    nonce: u64,
    pub(super) resource_type: ResourceType,
    pub(super) names: Vec<Arc<str>>,
}

/// The last responses of a stream.
#[derive(Debug, Default)]
pub(super) struct History {
    last: u64,
    sent: VecDeque<Sent>,
}

impl History {
    /// Notes a response and returns its nonce.
    pub(super) fn add(&mut self, resource_type: ResourceType, names: Vec<Arc<str>>) -> String {
        self.last += 1;
        if self.sent.len() >= MAX_RESPONSES {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent {
            nonce: self.last,
            resource_type,
            names,
        });
        self.last.to_string()
    }

    /// The response that a nonce answers, each once; `None` for one never sent, answered already, or long ago.
    pub(super) fn take(&mut self, nonce: &str) -> Option<Sent> {
        let nonce = nonce.parse::<u64>().ok()?;
        let at = self.sent.iter().position(|s| s.nonce == nonce)?;
        self.sent.remove(at)
    }
}
