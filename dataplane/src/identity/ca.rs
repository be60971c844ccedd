//! Asking the CA for one certificate.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};
use weft_identity::request::KeyRequest;
use weft_identity::{SpiffeId, Svid, TrustBundle};
use weft_proto::resource::NODE;
use weft_proto::wire::certificates::v1::IstioCertificateRequest;
use weft_proto::wire::certificates::v1::istio_certificate_service_client::IstioCertificateServiceClient;

use crate::xds::{Connect, ControlChannel};

/// A CA that takes longer hangs.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A chain of certificates is no longer.
const MAX_ANSWER: usize = 1 << 20;

/// Why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AskError {
    /// The control plane is no CA.
    #[error("the control plane issues no certificates")]
    NoCa,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// The CA, behind one connection that all requests share.
pub(super) struct Ca {
    node: String,
    connection: Mutex<Connection>,
}

struct Connection {
    connect: Box<dyn Connect>,
    open: Option<ControlChannel>,
}

impl Ca {
    pub(super) fn new(node: &str, connect: Box<dyn Connect>) -> Arc<Self> {
        Arc::new(Self {
            node: node.to_owned(),
            connection: Mutex::new(Connection {
                connect,
                open: None,
            }),
        })
    }

    /// A new key, and its certificate for `id`; and whom the CA says to trust.
    pub(super) async fn ask(&self, id: &SpiffeId) -> Result<(Svid, TrustBundle), AskError> {
        let failed = |e: String| AskError::Failed(e);
        let made = KeyRequest::new(id).map_err(|e| failed(e.to_string()))?;
        let answered = timeout(ANSWER_WITHIN, self.send(id, made.csr)).await;
        let answer = match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(status)) if status.code() == Code::Unimplemented => return Err(AskError::NoCa),
            Ok(Err(status)) => {
                if status.code() == Code::Unavailable {
                    self.connection.lock().await.open = None;
                }
                return Err(failed(format!("{:?}: {}", status.code(), status.message())));
            }
            Err(_) => {
                self.connection.lock().await.open = None;
                return Err(failed(format!("no answer within {ANSWER_WITHIN:?}")));
            }
        };
        let accepted = Svid::accept(id.clone(), made.key, &answer);
        accepted.map_err(|e| failed(e.to_string()))
    }

    async fn send(&self, id: &SpiffeId, csr: String) -> Result<String, Status> {
        let channel = self.channel().await?;
        let mut request = Request::new(IstioCertificateRequest {
            csr,
            // As long as the CA gives.
            validity_duration: 0,
            metadata: Some(on_behalf(id)),
        });
        let node = MetadataValue::try_from(self.node.as_str())
            .map_err(|_| Status::invalid_argument("the node's name is no metadata"))?;
        request.metadata_mut().insert(NODE, node);
        let answer = IstioCertificateServiceClient::new(channel)
            .max_decoding_message_size(MAX_ANSWER)
            .create_certificate(request)
            .await?;
        let parts = answer.into_inner().cert_chain;
        Ok(parts
            .iter()
            .map(|part| format!("{}\n", part.trim()))
            .collect())
    }

    async fn channel(&self) -> Result<ControlChannel, Status> {
        let mut connection = self.connection.lock().await;
        if let Some(open) = &connection.open {
            return Ok(open.clone());
        }
        let opened = connection.connect.connect().await;
        let opened = opened.map_err(|e| Status::unavailable(e.to_string()))?;
        connection.open = Some(opened.clone());
        Ok(opened)
    }
}

/// As Istio's node agents say whose certificate it is.
fn on_behalf(id: &SpiffeId) -> prost_types::Struct {
    let value = prost_types::Value {
        kind: Some(prost_types::value::Kind::StringValue(id.to_string())),
    };
    prost_types::Struct {
        fields: [("ImpersonatedIdentity".to_owned(), value)].into(),
    }
}
