//! State-of-the-world ADS, for servers that have no other.

use futures::Stream;
use futures::future::BoxFuture;
use tonic::{Status, Streaming};
use weft_proto::envoy::envoy::config::core::v3::Node;
use weft_proto::envoy::envoy::service::discovery::v3::{
    DiscoveryRequest, DiscoveryResponse,
    aggregated_discovery_service_client::AggregatedDiscoveryServiceClient,
};
use weft_proto::resource::ResourceType;

use super::ControlChannel;
use super::ack::error_detail;
use super::decode::{self, Decoded};
use super::memory::Memory;
use super::session::{Answer, LARGEST_RESPONSE, Protocol};
use crate::compile::LocalityPool;

pub(super) struct StateOfTheWorld;

impl Protocol for StateOfTheWorld {
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;

    fn open(
        channel: ControlChannel,
        requests: impl Stream<Item = Self::Request> + Send + 'static,
    ) -> BoxFuture<'static, Result<Streaming<Self::Response>, Status>> {
        Box::pin(async {
            let response = AggregatedDiscoveryServiceClient::new(channel)
                .max_decoding_message_size(LARGEST_RESPONSE)
                .stream_aggregated_resources(requests)
                .await?;
            Ok(response.into_inner())
        })
    }

    fn set_node(request: &mut Self::Request, node: Node) {
        request.node = Some(node);
    }

    fn initial(memory: &Memory) -> Vec<Self::Request> {
        let mut requests = Vec::new();
        for resource_type in memory.wildcards() {
            requests.push(request(memory, resource_type));
            if resource_type == ResourceType::Cluster && !memory.endpoints.is_empty() {
                requests.push(request(memory, ResourceType::Endpoints));
            }
        }
        requests
    }

    /// Every request lists all names. With none it would ask for everything, so the last name is not unsubscribed.
    fn subscribe(memory: &Memory, _: &[String], _: &[String]) -> Vec<Self::Request> {
        match memory.endpoints.is_empty() {
            true => Vec::new(),
            false => vec![request(memory, ResourceType::Endpoints)],
        }
    }

    fn type_url(response: &Self::Response) -> &str {
        &response.type_url
    }

    fn nonce(response: &Self::Response) -> &str {
        &response.nonce
    }

    fn version(response: &Self::Response) -> &str {
        &response.version_info
    }

    fn size(response: &Self::Response) -> usize {
        response.resources.len()
    }

    fn decode(
        resource_type: ResourceType,
        response: Self::Response,
        pool: &mut LocalityPool,
    ) -> Decoded {
        decode::world(resource_type, response, pool)
    }

    /// Carries the version of this response, or after a rejection the last one that was accepted.
    fn acknowledge(answer: &Answer<'_>, memory: &mut Memory) -> Self::Request {
        if answer.rejected.is_empty() {
            let versions = &mut memory.world_versions;
            versions.insert(answer.resource_type, answer.version.to_owned());
        }
        let mut request = request(memory, answer.resource_type);
        request.error_detail = error_detail(answer.rejected);
        request
    }
}

fn request(memory: &Memory, resource_type: ResourceType) -> DiscoveryRequest {
    DiscoveryRequest {
        version_info: memory
            .world_versions
            .get(&resource_type)
            .cloned()
            .unwrap_or_default(),
        resource_names: match resource_type {
            ResourceType::Endpoints => memory.endpoints.keys().cloned().collect(),
            _ => Vec::new(),
        },
        type_url: resource_type.type_url().to_owned(),
        response_nonce: memory
            .nonces
            .get(&resource_type)
            .cloned()
            .unwrap_or_default(),
        ..Default::default()
    }
}
