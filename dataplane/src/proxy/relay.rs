//! Envoy's way to the control plane: it asks the agent over a Unix socket, and the agent asks on, the way it asks for itself. So Envoy needs
//! neither the control plane's address nor credentials, and says nothing about itself that would count.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use tokio::net::UnixListener;
use tokio::sync::Mutex;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataValue;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use weft_identity::sds::{SdsServer, SecretsReceiver};
use weft_proto::envoy::envoy::service::accesslog::v3::access_log_service_server::AccessLogServiceServer;
use weft_proto::envoy::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient as Client;
use weft_proto::envoy::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use weft_proto::resource::{BACK_END, BACK_END_ENVOY};

use super::{AccessLog, Owners, RequestSpans};
use crate::xds::{Connect, ControlChannel};
use weft_proto::convert::request_log::with_log;

/// A full configuration in one message.
const MAX_MESSAGE_BYTES: usize = 128 << 20;

/// Serves Envoy's control plane by asking the agent's, and the certificates that the agent keeps by SDS.
pub struct Relay {
    control: Mutex<Box<dyn Connect>>,
    owners: Option<Owners>,
    log: Option<AccessLog>,
    logs_requests: bool,
    spans: Option<RequestSpans>,
    secrets: SecretsReceiver,
}

impl Relay {
    /// Asks `control`, and has `secrets`.
    #[must_use]
    pub fn new(control: Box<dyn Connect>, secrets: SecretsReceiver) -> Self {
        Self {
            control: Mutex::new(control),
            owners: None,
            log: None,
            logs_requests: false,
            spans: None,
            secrets,
        }
    }

    /// Also takes Envoy's access log.
    #[must_use]
    pub fn with_log(self, log: AccessLog) -> Self {
        Self {
            logs_requests: log.counts_requests(),
            log: Some(log),
            ..self
        }
    }

    /// Also has Envoy make spans of requests, and takes them.
    #[must_use]
    pub fn with_spans(self, spans: Option<RequestSpans>) -> Self {
        Self { spans, ..self }
    }

    /// Also says whose an address is.
    #[must_use]
    pub fn with_owners(self, owners: Owners) -> Self {
        Self {
            owners: Some(owners),
            ..self
        }
    }

    /// Serves at `socket` until `drain` is cancelled.
    ///
    /// # Errors
    /// When nothing can be served there.
    pub async fn serve(mut self, socket: PathBuf, drain: CancellationToken) -> Result<(), String> {
        let listener = listen(&socket).map_err(|e| format!("{}: {e}", socket.display()))?;
        let owners = self.owners.take().map(Owners::into_service);
        let sds = SdsServer::new(self.secrets.clone(), drain.clone());
        let log = self.log.take().map(AccessLogServiceServer::new);
        let spans = self.spans.clone();
        Server::builder()
            .add_optional_service(log)
            .add_optional_service(spans)
            .add_service(sds.into_service())
            .add_service(AggregatedDiscoveryServiceServer::new(self))
            .add_optional_service(owners)
            .serve_with_incoming_shutdown(
                UnixListenerStream::new(listener),
                drain.cancelled_owned(),
            )
            .await
            .map_err(|e| e.to_string())
    }

    async fn client(&self) -> Result<Client<ControlChannel>, Status> {
        let channel = self.control.lock().await.connect().await;
        let channel = channel.map_err(|e| Status::unavailable(e.to_string()))?;
        Ok(Client::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES))
    }
}

/// Only root may ask. One that a killed agent left is in the way.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(socket) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// The requests of a stream until it breaks, as a stream of the node's Envoy.
fn on_behalf<T: Send + 'static>(
    incoming: Request<Streaming<T>>,
) -> Request<impl futures::Stream<Item = T> + Send + 'static> {
    let requests = incoming.into_inner();
    let requests = tokio_stream::StreamExt::map_while(requests, Result::ok);
    let mut outgoing = Request::new(requests);
    let envoy = MetadataValue::from_static(BACK_END_ENVOY);
    outgoing.metadata_mut().insert(BACK_END, envoy);
    outgoing
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Relay {
    type StreamAggregatedResourcesStream = Streaming<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream =
        BoxStream<'static, Result<DeltaDiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let mut client = self.client().await?;
        let requests = on_behalf(request);
        let answer = client.stream_aggregated_resources(requests).await?;
        Ok(Response::new(answer.into_inner()))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let mut client = self.client().await?;
        let requests = on_behalf(request);
        let answer = client.delta_aggregated_resources(requests).await?;
        let answers = answer.into_inner();
        let (spans, logs_requests) = (self.spans.clone(), self.logs_requests);
        if spans.is_none() && !logs_requests {
            return Ok(Response::new(answers.boxed()));
        }
        let wishing = answers.map_ok(move |mut response| {
            let resources = response.resources.iter_mut();
            for any in resources.filter_map(|r| r.resource.as_mut()) {
                let mut wished = std::mem::take(any);
                if let Some(spans) = &spans {
                    wished = spans.wanted_in(wished);
                }
                *any = if logs_requests {
                    with_log(wished)
                } else {
                    wished
                };
            }
            response
        });
        Ok(Response::new(wishing.boxed()))
    }
}
