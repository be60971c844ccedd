//! One delta ADS stream.

use std::collections::{HashMap, HashSet};
use std::net::TcpListener;
use std::pin::Pin;

use futures::Stream;
use tokio::runtime::Runtime;
use tokio::sync::{broadcast, mpsc};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};
use weft_proto::envoy::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    Resource as Wire,
};
use weft_proto::resource::ResourceType;

use super::{Push, Shared};
use crate::Result;

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Serves on `listener` until the runtime ends.
pub(super) fn serve(runtime: &Runtime, listener: TcpListener, shared: Shared) -> Result {
    let _inside = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    runtime.spawn(
        tonic::transport::Server::builder()
            .add_service(AggregatedDiscoveryServiceServer::new(Service { shared }))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    Ok(())
}

struct Service {
    shared: Shared,
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = Responses<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Responses<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        _: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented("delta only"))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let (out, responses) = mpsc::channel(64);
        let silent = {
            let mut state = self.shared.lock();
            state.streams += 1;
            state.silent
        };
        let conversation = Conversation {
            // Before anything is read, so that no push is missed.
            pushes: self.shared.push.subscribe(),
            shared: self.shared.clone(),
            subscriptions: HashMap::new(),
            out,
        };
        tokio::spawn(conversation.run(request.into_inner(), silent));
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }
}

/// What a client asked for of one type.
#[derive(Default)]
struct Subscription {
    wildcard: bool,
    names: HashSet<String>,
}

impl Subscription {
    fn wants(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }
}

struct Conversation {
    shared: Shared,
    pushes: broadcast::Receiver<Push>,
    subscriptions: HashMap<String, Subscription>,
    out: mpsc::Sender<Result<DeltaDiscoveryResponse, Status>>,
}

impl Conversation {
    async fn run(mut self, mut requests: Streaming<DeltaDiscoveryRequest>, silent: bool) {
        loop {
            let reply = tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(_)) if silent => None,
                    Ok(Some(request)) => self.on_request(request),
                    Ok(None) | Err(_) => return,
                },
                push = self.pushes.recv() => match push {
                    Ok(Push::Break) => {
                        let _ = self.out.send(Err(Status::unavailable("broken by the test"))).await;
                        return;
                    }
                    Ok(_) if silent => None,
                    Ok(Push::Raw(response)) => Some(*response),
                    Ok(Push::Changed { type_url, names }) => self.response(&type_url, names),
                    Err(_) => return,
                },
            };
            if let Some(response) = reply
                && self.out.send(Ok(response)).await.is_err()
            {
                return;
            }
        }
    }

    fn on_request(&mut self, request: DeltaDiscoveryRequest) -> Option<DeltaDiscoveryResponse> {
        let type_url = request.type_url;
        if !request.response_nonce.is_empty() {
            let error = request.error_detail.map(|status| status.message);
            self.shared.note_answer(&request.response_nonce, error);
        }
        let is_new = !self.subscriptions.contains_key(&type_url);
        let subscription = self.subscriptions.entry(type_url.clone()).or_default();
        let added: HashSet<String> = request
            .resource_names_subscribe
            .into_iter()
            .filter(|name| name == "*" || subscription.names.insert(name.clone()))
            .collect();
        for name in &request.resource_names_unsubscribe {
            subscription.names.remove(name);
        }
        let may_wildcard = type_url != ResourceType::Endpoints.type_url();
        let asks_all = added.contains("*") || (is_new && added.is_empty());
        let becomes_wildcard = may_wildcard && asks_all && !subscription.wildcard;
        subscription.wildcard |= becomes_wildcard;
        let foreign = ResourceType::from_type_url(&type_url).is_some_and(|t| !t.is_envoy());
        if becomes_wildcard {
            let mut names = self.names_of(&type_url);
            // The client resumes: tell it what has gone meanwhile.
            names.extend(request.initial_resource_versions.into_keys());
            names.sort();
            names.dedup();
            (!foreign || !names.is_empty()).then(|| self.response_even_if_empty(&type_url, names))
        } else if added.is_empty() {
            None
        } else {
            self.response(&type_url, added.into_iter().collect())
        }
    }

    fn names_of(&self, type_url: &str) -> Vec<String> {
        let state = self.shared.lock();
        let alive = state
            .resources
            .iter()
            .filter(|(_, held)| held.body.is_some());
        let of_type = alive.filter(|((t, _), _)| t == type_url);
        of_type.map(|((_, name), _)| name.clone()).collect()
    }

    /// The response about these resources, if the client asked for any of them.
    fn response(&self, type_url: &str, names: Vec<String>) -> Option<DeltaDiscoveryResponse> {
        let subscription = self.subscriptions.get(type_url)?;
        let wanted = names.into_iter().filter(|name| subscription.wants(name));
        let wanted: Vec<String> = wanted.collect();
        (!wanted.is_empty()).then(|| self.response_even_if_empty(type_url, wanted))
    }

    fn response_even_if_empty(&self, type_url: &str, names: Vec<String>) -> DeltaDiscoveryResponse {
        let mut response = DeltaDiscoveryResponse {
            type_url: type_url.to_owned(),
            nonce: self.shared.next_nonce(),
            ..Default::default()
        };
        let mut sent = Vec::new();
        let state = self.shared.lock();
        for name in names {
            let key = (type_url.to_owned(), name.clone());
            let held = state.resources.get(&key);
            sent.extend(held.map(|held| (key, held.version)));
            match held.and_then(|held| held.body.clone().map(|body| (held.version, body))) {
                Some((version, body)) => response.resources.push(Wire {
                    name,
                    version: version.to_string(),
                    resource: Some(body),
                    ..Default::default()
                }),
                None => response.removed_resources.push(name),
            }
        }
        drop(state);
        self.shared.note_sent(&response.nonce, sent);
        response
    }
}
