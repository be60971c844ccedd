//! The incremental variant of the protocol.

use std::collections::HashMap;
use std::sync::Arc;

use tonic::Status;
use weft_proto::envoy::envoy::config::core::v3::ControlPlane;
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse,
};
use weft_proto::resource::{MORE_FOLLOWS, ResourceType};

use super::history::History;
use super::nack::Nacks;
use super::node::NodeId;
use super::store::Snapshot;
use super::stream::Session;
use super::subscription::{Chunk, Subscription};
use crate::auth::Peer;

/// Large sets travel in pieces of about this size: what a slow stream costs is this, a few times over, and when all agents come at once
/// all streams are slow. A resource that is larger travels alone.
const MAX_CHUNK_BYTES: usize = 1 << 15;

/// One delta stream.
#[derive(Debug)]
pub(super) struct DeltaSession {
    node: NodeId,
    nacks: Arc<Nacks>,
    control_plane: ControlPlane,
    subscriptions: HashMap<ResourceType, Subscription>,
    history: History,
}

impl DeltaSession {
    pub(super) fn new(peer: Peer, nacks: Arc<Nacks>, control_plane: ControlPlane) -> Self {
        Self {
            node: NodeId::new(peer),
            nacks,
            control_plane,
            subscriptions: HashMap::new(),
            history: History::default(),
        }
    }

    fn note_answer(
        &mut self,
        node: &Arc<str>,
        resource_type: ResourceType,
        request: &DeltaDiscoveryRequest,
    ) {
        let sent = self
            .history
            .take(&request.response_nonce)
            .filter(|s| s.resource_type == resource_type);
        match (&request.error_detail, &sent) {
            (Some(error), sent) => {
                self.nacks
                    .refused(node, resource_type, sent.as_ref(), &error.message);
            }
            (None, Some(sent)) => self.nacks.accepted(node, sent),
            (None, None) => {}
        }
    }

    fn response(
        &mut self,
        resource_type: ResourceType,
        chunk: Chunk,
        snapshot: &Snapshot,
    ) -> DeltaDiscoveryResponse {
        let names = (chunk.names.iter())
            .chain(&chunk.removed)
            .cloned()
            .collect();
        let more = self
            .subscriptions
            .get(&resource_type)
            .is_some_and(|s| s.owes_upserts() || s.owes_removals());
        DeltaDiscoveryResponse {
            system_version_info: version_info(snapshot, more),
            resources: chunk.resources,
            type_url: resource_type.type_url().to_owned(),
            removed_resources: chunk.removed.iter().map(ToString::to_string).collect(),
            nonce: self.history.add(resource_type, names),
            control_plane: Some(self.control_plane.clone()),
            ..DeltaDiscoveryResponse::default()
        }
    }
}

fn version_info(snapshot: &Snapshot, more: bool) -> String {
    let mut info = snapshot.time().to_string();
    info.extend(more.then_some(MORE_FOLLOWS));
    info
}

impl Session for DeltaSession {
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;

    fn on_request(
        &mut self,
        request: DeltaDiscoveryRequest,
        snapshot: &Snapshot,
    ) -> Result<(), Status> {
        let client = self.node.note(request.node.as_ref())?;
        let Some(resource_type) = super::server::known_type(&client.id, &request.type_url)? else {
            return Ok(());
        };
        if !request.response_nonce.is_empty() || request.error_detail.is_some() {
            self.note_answer(&client.id, resource_type, &request);
        }
        let table = snapshot.table(resource_type);
        if let Some(subscription) = self.subscriptions.get_mut(&resource_type) {
            subscription.change(
                &request.resource_names_subscribe,
                &request.resource_names_unsubscribe,
                table,
            )
        } else {
            let subscription = Subscription::new(
                client,
                &request.resource_names_subscribe,
                request.initial_resource_versions,
                table,
                snapshot.time(),
            )?;
            self.subscriptions.insert(resource_type, subscription);
            Ok(())
        }
    }

    fn on_change(&mut self, snapshot: &Snapshot) -> Result<(), Status> {
        for (resource_type, subscription) in &mut self.subscriptions {
            subscription.catch_up(snapshot.table(*resource_type), snapshot.time())?;
        }
        Ok(())
    }

    fn has_work(&self) -> bool {
        self.subscriptions
            .values()
            .any(|s| s.owes_upserts() || s.owes_removals())
    }

    /// Make before break: first what is new, referred-to before referring; then what is gone, the other way round.
    fn next_response(&mut self, snapshot: &Snapshot) -> Option<DeltaDiscoveryResponse> {
        for resource_type in ResourceType::ALL {
            let Some(subscription) = self.subscriptions.get_mut(&resource_type) else {
                continue;
            };
            if subscription.owes_upserts() {
                let table = snapshot.table(resource_type);
                let owed = subscription.owes_answer();
                let chunk = subscription.take_upserts(table, MAX_CHUNK_BYTES);
                if owed || !chunk.resources.is_empty() {
                    return Some(self.response(resource_type, chunk, snapshot));
                }
            }
        }
        for resource_type in ResourceType::ALL.into_iter().rev() {
            let Some(subscription) = self.subscriptions.get_mut(&resource_type) else {
                continue;
            };
            if subscription.owes_removals() {
                let chunk = subscription.take_removals(MAX_CHUNK_BYTES);
                return Some(self.response(resource_type, chunk, snapshot));
            }
        }
        None
    }
}
