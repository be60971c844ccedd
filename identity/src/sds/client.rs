//! One secret, followed as it changes.

use futures::{StreamExt, stream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Body as HttpBody, Bytes, StdError};
use tonic::{Status, Streaming};
use weft_proto::envoy::envoy::config::core::v3::Node;
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse,
};
use weft_proto::envoy::envoy::service::secret::v3::secret_discovery_service_client::SecretDiscoveryServiceClient;
use weft_proto::envoy::google::protobuf::Any;

use crate::secret::TYPE_URL;

/// A secret that a server tells of.
pub struct Watched {
    name: String,
    answers: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

/// Asks for the secret `name` as node `node`.
///
/// # Errors
/// When the server does not want to.
pub async fn watch_secret<T>(channel: T, node: &str, name: &str) -> Result<Watched, Status>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    let first = DeltaDiscoveryRequest {
        node: Some(Node {
            id: node.to_owned(),
            ..Default::default()
        }),
        type_url: TYPE_URL.to_owned(),
        resource_names_subscribe: vec![name.to_owned()],
        ..Default::default()
    };
    let (answers, queue) = mpsc::channel(1);
    // Some servers send no headers before their first response: the first request must not wait for them.
    let requests = stream::iter([first]).chain(ReceiverStream::new(queue));
    let response = SecretDiscoveryServiceClient::new(channel)
        .delta_secrets(requests)
        .await?;
    Ok(Watched {
        name: name.to_owned(),
        answers,
        responses: response.into_inner(),
    })
}

impl Watched {
    /// The next version of it. `use_it` says whether it can be used, and why not: then the server hears that.
    ///
    /// # Errors
    /// When the stream is over.
    pub async fn next<R>(
        &mut self,
        mut use_it: impl FnMut(&Any) -> Result<R, String>,
    ) -> Result<R, Status> {
        loop {
            let response = self.responses.message().await?;
            let response =
                response.ok_or_else(|| Status::unavailable("the server ended the stream"))?;
            let found = response.resources.iter().find(|r| r.name == self.name);
            let used = found.and_then(|r| r.resource.as_ref()).map(&mut use_it);
            let mut answer = DeltaDiscoveryRequest {
                type_url: TYPE_URL.to_owned(),
                response_nonce: response.nonce,
                ..Default::default()
            };
            if let Some(Err(reason)) = &used {
                answer.error_detail = Some(weft_proto::envoy::google::rpc::Status {
                    // google.rpc.Code.INVALID_ARGUMENT
                    code: 3,
                    message: reason.clone(),
                    details: Vec::new(),
                });
            }
            let sent = self.answers.send(answer).await;
            sent.map_err(|_| Status::unavailable("the server ended the stream"))?;
            if let Some(Ok(value)) = used {
                return Ok(value);
            }
        }
    }
}
