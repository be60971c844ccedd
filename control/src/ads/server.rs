//! The gRPC service.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use weft_proto::envoy::envoy::config::core::v3::ControlPlane;
use weft_proto::envoy::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use weft_proto::resource::ResourceType;

use super::back_end::Stores;
use super::delta::DeltaSession;
use super::nack::Nacks;
use super::sotw::SotwSession;
use super::stream;
use crate::auth::Peer;

/// A client that resumes names everything it has in one request.
const MAX_REQUEST_BYTES: usize = 128 << 20;

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Serves what is published to any number of streams.
#[derive(Clone, Debug)]
pub struct AdsServer {
    stores: Stores,
    nacks: Arc<Nacks>,
    drain: CancellationToken,
}

impl AdsServer {
    /// A server whose streams end when `drain` is cancelled.
    #[must_use]
    pub const fn new(stores: Stores, nacks: Arc<Nacks>, drain: CancellationToken) -> Self {
        Self {
            stores,
            nacks,
            drain,
        }
    }

    /// As a tonic service.
    #[must_use]
    pub fn into_service(self) -> AggregatedDiscoveryServiceServer<Self> {
        AggregatedDiscoveryServiceServer::new(self).max_decoding_message_size(MAX_REQUEST_BYTES)
    }
}

fn control_plane() -> ControlPlane {
    ControlPlane {
        identifier: concat!("weft-control ", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}

/// Who asks, as whatever stands in front of this service has found out.
fn peer<T>(request: &Request<T>) -> Result<Peer, Status> {
    let peer = request.extensions().get::<Peer>().cloned();
    peer.ok_or_else(|| Status::unauthenticated("nobody has said who asks"))
}

/// The type of a request. A type that is not served is left unanswered, as the protocol asks, so that a client which wants more
/// than this server has still gets the rest.
pub(super) fn known_type(node: &str, type_url: &str) -> Result<Option<ResourceType>, Status> {
    if type_url.is_empty() {
        return Err(Status::invalid_argument(
            "type_url is missing: on an aggregated stream each request must have one",
        ));
    }
    let known = ResourceType::from_type_url(type_url);
    if known.is_none() {
        let type_url: String = type_url.chars().take(256).collect();
        tracing::debug!(%node, %type_url, "request for a type that is not served");
    }
    Ok(known)
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for AdsServer {
    type StreamAggregatedResourcesStream = Responses<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Responses<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let session = SotwSession::new(peer(&request)?, Arc::clone(&self.nacks), control_plane());
        let store = Arc::clone(self.stores.of(request.metadata()));
        Ok(Response::new(Box::pin(stream::spawn(
            session,
            request.into_inner(),
            store,
            self.drain.clone(),
        ))))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let session = DeltaSession::new(peer(&request)?, Arc::clone(&self.nacks), control_plane());
        let store = Arc::clone(self.stores.of(request.metadata()));
        Ok(Response::new(Box::pin(stream::spawn(
            session,
            request.into_inner(),
            store,
            self.drain.clone(),
        ))))
    }
}
