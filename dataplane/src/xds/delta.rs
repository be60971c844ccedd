//! Incremental ADS.

use futures::Stream;
use futures::future::BoxFuture;
use tonic::{Status, Streaming};
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse,
    aggregated_discovery_service_client::AggregatedDiscoveryServiceClient,
};
use weft_proto::resource::{MORE_FOLLOWS, ResourceType};

use super::ControlChannel;
use super::ack::error_detail;
use super::decode::{self, Decoded};
use super::memory::Memory;
use super::session::{Answer, LARGEST_RESPONSE, Protocol};
use crate::compile::LocalityPool;

/// Names in one request: servers bound the size of requests, often to 4 MiB.
const NAMES_PER_REQUEST: usize = 5_000;

pub(super) struct Delta;

impl Protocol for Delta {
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;

    fn open(
        channel: ControlChannel,
        requests: impl Stream<Item = Self::Request> + Send + 'static,
    ) -> BoxFuture<'static, Result<Streaming<Self::Response>, Status>> {
        Box::pin(async {
            let response = AggregatedDiscoveryServiceClient::new(channel)
                .max_decoding_message_size(LARGEST_RESPONSE)
                .delta_aggregated_resources(requests)
                .await?;
            Ok(response.into_inner())
        })
    }

    fn set_node(
        request: &mut Self::Request,
        node: weft_proto::envoy::envoy::config::core::v3::Node,
    ) {
        request.node = Some(node);
    }

    fn initial(memory: &Memory) -> Vec<Self::Request> {
        let mut requests = Vec::new();
        for resource_type in memory.wildcards() {
            // No names in the first request of a type: all of it.
            let mut request = request(resource_type);
            request.initial_resource_versions = held(memory, resource_type);
            requests.push(request);
            if resource_type == ResourceType::Cluster {
                let names: Vec<String> = memory.endpoints.keys().cloned().collect();
                let mut endpoints = Self::subscribe(memory, &names, &[]);
                if let Some(first) = endpoints.first_mut() {
                    first.initial_resource_versions = held(memory, ResourceType::Endpoints);
                }
                requests.extend(endpoints);
            }
        }
        requests
    }

    fn subscribe(_: &Memory, more: &[String], less: &[String]) -> Vec<Self::Request> {
        let more = more.chunks(NAMES_PER_REQUEST).map(|names| {
            let mut request = request(ResourceType::Endpoints);
            request.resource_names_subscribe = names.to_vec();
            request
        });
        let less = less.chunks(NAMES_PER_REQUEST).map(|names| {
            let mut request = request(ResourceType::Endpoints);
            request.resource_names_unsubscribe = names.to_vec();
            request
        });
        more.chain(less).collect()
    }

    fn type_url(response: &Self::Response) -> &str {
        &response.type_url
    }

    fn nonce(response: &Self::Response) -> &str {
        &response.nonce
    }

    fn version(_: &Self::Response) -> &str {
        ""
    }

    fn more_follows(response: &Self::Response) -> bool {
        response.system_version_info.ends_with(MORE_FOLLOWS)
    }

    fn size(response: &Self::Response) -> usize {
        response.resources.len()
    }

    fn decode(
        resource_type: ResourceType,
        response: Self::Response,
        pool: &mut LocalityPool,
    ) -> Decoded {
        decode::delta(resource_type, response, pool)
    }

    fn acknowledge(answer: &Answer<'_>, _: &mut Memory) -> Self::Request {
        let mut request = request(answer.resource_type);
        request.response_nonce = answer.nonce.to_owned();
        request.error_detail = error_detail(answer.rejected);
        request
    }
}

fn request(resource_type: ResourceType) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: resource_type.type_url().to_owned(),
        ..Default::default()
    }
}

fn held(memory: &Memory, resource_type: ResourceType) -> std::collections::HashMap<String, String> {
    memory
        .versions
        .get(&resource_type)
        .cloned()
        .unwrap_or_default()
}
