//! What status and metrics can see of the client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use weft_proto::resource::ResourceType;

/// State of the stream.
#[derive(Clone, Debug, Default)]
pub struct XdsStatus {
    /// A stream is open.
    pub connected: bool,
    /// Everything was received once.
    pub synced: bool,
    /// Types of which a response was received, and the last nonce.
    pub received: BTreeMap<ResourceType, String>,
    /// Types that this control plane does not know.
    pub unsupported: BTreeSet<ResourceType>,
    /// Endpoints that clusters ask for and that the control plane has not sent in time: they count as empty.
    pub missing_endpoints: BTreeSet<String>,
    /// Endpoints still waited for.
    pub awaited_endpoints: usize,
    /// Why there is, or was last, no stream.
    pub last_error: Option<String>,
}

/// The same for everybody.
#[derive(Clone, Debug, Default)]
pub struct SharedStatus {
    inner: Arc<Mutex<XdsStatus>>,
}

impl SharedStatus {
    /// As it is now.
    #[must_use]
    pub fn snapshot(&self) -> XdsStatus {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut XdsStatus)) {
        change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
