//! The state-of-the-world variant of the protocol.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tonic::Status;
use weft_proto::envoy::envoy::config::core::v3::ControlPlane;
use weft_proto::envoy::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use weft_proto::resource::ResourceType;

use super::history::History;
use super::nack::Nacks;
use super::node::{Client, NodeId};
use super::store::{Entry, Snapshot, Table, Version};
use super::stream::Session;
use super::subscription::MAX_NAMES;
use crate::auth::Peer;

/// One state-of-the-world stream.
#[derive(Debug)]
pub(super) struct SotwSession {
    node: NodeId,
    nacks: Arc<Nacks>,
    control_plane: ControlPlane,
    watches: HashMap<ResourceType, Watch>,
    history: History,
}

/// What the client wants of one type, and what it was sent last.
#[derive(Debug)]
struct Watch {
    client: Client,
    /// `None`: everything.
    names: Option<BTreeSet<Arc<str>>>,
    /// Nonce of the last response; empty before the first.
    nonce: String,
    /// Version of the last response, or what the client had when it came.
    version: String,
    /// Versions last sent, for types of which a response may leave out what is unchanged.
    sent: HashMap<Arc<str>, Version>,
    seen: u64,
    dirty: bool,
}

impl Watch {
    fn wants(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name))
    }

    /// All there is of what it wants, by name.
    fn state(&self, table: &Table) -> Vec<(Arc<str>, Entry)> {
        let owned = |(name, entry): (&Arc<str>, &Entry)| (Arc::clone(name), entry.clone());
        let mut state: Vec<_> = match &self.names {
            None => table.iter_for(&self.client).map(owned).collect(),
            Some(names) => names
                .iter()
                .filter_map(|n| table.get_for(&self.client, n))
                .map(owned)
                .collect(),
        };
        state.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        state
    }
}

/// Version of a whole response.
fn version_of(state: &[(Arc<str>, Entry)]) -> String {
    let content: Vec<_> = state.iter().map(|(name, e)| (name, e.version)).collect();
    Version::of(&content).to_string()
}

/// Listeners and clusters that a response leaves out are gone; endpoints it leaves out are unchanged.
const fn must_be_full(resource_type: ResourceType) -> bool {
    !matches!(resource_type, ResourceType::Endpoints)
}

fn wanted_names(request: &DiscoveryRequest) -> Result<Option<BTreeSet<Arc<str>>>, Status> {
    let names = &request.resource_names;
    if names.len() > MAX_NAMES {
        return Err(Status::invalid_argument(format!(
            "more than {MAX_NAMES} resource names in one subscription: subscribe to \"*\" instead"
        )));
    }
    if names.iter().any(|n| n == "*") {
        return Ok(None);
    }
    Ok(Some(names.iter().map(|n| Arc::from(n.as_str())).collect()))
}

impl SotwSession {
    pub(super) fn new(peer: Peer, nacks: Arc<Nacks>, control_plane: ControlPlane) -> Self {
        Self {
            node: NodeId::new(peer),
            nacks,
            control_plane,
            watches: HashMap::new(),
            history: History::default(),
        }
    }

    fn first_request(
        &mut self,
        client: Client,
        resource_type: ResourceType,
        request: DiscoveryRequest,
        names: Option<BTreeSet<Arc<str>>>,
        snapshot: &Snapshot,
    ) {
        self.watches.insert(
            resource_type,
            Watch {
                client,
                // Who names nothing at first wants everything.
                names: names.filter(|n| !n.is_empty()),
                version: request.version_info,
                seen: snapshot.time(),
                dirty: true,
                nonce: String::new(),
                sent: HashMap::new(),
            },
        );
    }

    fn note_answer(
        &mut self,
        node: &Arc<str>,
        resource_type: ResourceType,
        request: &DiscoveryRequest,
    ) {
        let sent = self
            .history
            .take(&request.response_nonce)
            .filter(|s| s.resource_type == resource_type);
        if let Some(error) = &request.error_detail {
            self.nacks
                .refused(node, resource_type, sent.as_ref(), &error.message);
        } else if let Some(sent) = sent {
            self.nacks.accepted(node, &sent);
        }
    }
}

impl Session for SotwSession {
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;

    fn on_request(&mut self, request: DiscoveryRequest, snapshot: &Snapshot) -> Result<(), Status> {
        let client = self.node.note(request.node.as_ref())?;
        let Some(resource_type) = super::server::known_type(&client.id, &request.type_url)? else {
            return Ok(());
        };
        let names = wanted_names(&request)?;
        let Some(watch) = self.watches.get_mut(&resource_type) else {
            self.first_request(client, resource_type, request, names, snapshot);
            return Ok(());
        };
        if request.response_nonce != watch.nonce {
            // It crosses a newer response on the wire: the answer to that one will say it all again.
            return Ok(());
        }
        // Who never named anything keeps everything; who named some and now none wants nothing.
        let keeps_all = watch.names.is_none() && names.as_ref().is_some_and(BTreeSet::is_empty);
        if !keeps_all && watch.names != names {
            watch.names = names;
            watch.dirty = true;
            let wanted = std::mem::take(&mut watch.sent);
            watch.sent = wanted
                .into_iter()
                .filter(|(name, _)| watch.wants(name))
                .collect();
        }
        self.note_answer(&client.id, resource_type, &request);
        Ok(())
    }

    fn on_change(&mut self, snapshot: &Snapshot) -> Result<(), Status> {
        for (resource_type, watch) in &mut self.watches {
            if watch.seen == snapshot.time() {
                continue;
            }
            let changed = snapshot.table(*resource_type).since(watch.seen);
            watch.dirty |= changed.is_none_or(|mut names| names.any(|n| watch.wants(n)));
            watch.seen = snapshot.time();
        }
        Ok(())
    }

    fn has_work(&self) -> bool {
        self.watches.values().any(|w| w.dirty)
    }

    fn next_response(&mut self, snapshot: &Snapshot) -> Option<DiscoveryResponse> {
        for resource_type in ResourceType::ALL {
            let Some(watch) = self.watches.get_mut(&resource_type).filter(|w| w.dirty) else {
                continue;
            };
            watch.dirty = false;
            let mut state = watch.state(snapshot.table(resource_type));
            let version = version_of(&state);
            if version == watch.version {
                continue;
            }
            watch.version.clone_from(&version);
            if !must_be_full(resource_type) {
                state.retain(|(name, e)| watch.sent.get(name) != Some(&e.version));
                if state.is_empty() && !watch.nonce.is_empty() {
                    continue;
                }
                watch
                    .sent
                    .extend(state.iter().map(|(name, e)| (Arc::clone(name), e.version)));
            }
            let names = state.iter().map(|(name, _)| Arc::clone(name)).collect();
            watch.nonce = self.history.add(resource_type, names);
            return Some(DiscoveryResponse {
                version_info: version,
                resources: state.iter().map(|(_, e)| e.any()).collect(),
                type_url: resource_type.type_url().to_owned(),
                nonce: watch.nonce.clone(),
                control_plane: Some(self.control_plane.clone()),
                ..DiscoveryResponse::default()
            });
        }
        None
    }
}
