//! Istio's certificate service: nodes ask for the certificates of their workloads; keys never leave them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use tonic::{Code, Request, Response, Status};
use weft_proto::resource::NODE;
use weft_proto::wire::certificates::v1::istio_certificate_service_server::{
    IstioCertificateService, IstioCertificateServiceServer,
};
use weft_proto::wire::certificates::v1::{IstioCertificateRequest, IstioCertificateResponse};

use super::issue::{self, IssueError};
use super::{Authority, Residents};
use crate::ads::Store;
use crate::auth::Peer;

/// No request is longer.
const MAX_MESSAGE: usize = 64 << 10;

/// Signs for nodes what their pods' service accounts are entitled to.
#[derive(Clone)]
pub struct SigningService {
    authority: Arc<Authority>,
    residents: Arc<Residents>,
    store: Arc<Store>,
}

impl fmt::Debug for SigningService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningService")
    }
}

/// Why somebody gets no certificate.
struct Refusal {
    /// For metrics.
    reason: &'static str,
    status: Status,
}

impl Refusal {
    fn new(reason: &'static str, code: Code, message: impl Into<String>) -> Self {
        Self {
            reason,
            status: Status::new(code, message),
        }
    }
}

impl From<IssueError> for Refusal {
    fn from(error: IssueError) -> Self {
        let (reason, code) = match &error {
            IssueError::Request(_) | IssueError::Names | IssueError::Identity(_) => {
                ("bad-request", Code::InvalidArgument)
            }
            IssueError::Ended | IssueError::Make(_) => ("ca", Code::Unavailable),
        };
        Self::new(reason, code, error.to_string())
    }
}

impl SigningService {
    pub(crate) fn new(
        authority: Arc<Authority>,
        residents: Arc<Residents>,
        store: Arc<Store>,
    ) -> IstioCertificateServiceServer<Self> {
        let service = Self {
            authority,
            residents,
            store,
        };
        IstioCertificateServiceServer::new(service).max_decoding_message_size(MAX_MESSAGE)
    }

    fn sign(&self, node: &str, message: &IstioCertificateRequest) -> Result<Vec<String>, Refusal> {
        let request = issue::Request::read(&message.csr)?;
        let id = &request.id;
        let domain = self.authority.trust_domain();
        if id.trust_domain != *domain {
            let text = format!(
                "{id} is not of the trust domain {domain}, which is all that this CA vouches for"
            );
            return Err(Refusal::new("trust-domain", Code::PermissionDenied, text));
        }
        if !self.store.is_synced() {
            let text = "the control plane does not know all pods yet: ask again";
            return Err(Refusal::new("not-synced", Code::Unavailable, text));
        }
        if !self.residents.has(node, &id.namespace, &id.service_account) {
            let text =
                format!("no pod with the service account of {id} is scheduled on node {node}");
            return Err(Refusal::new("not-on-node", Code::PermissionDenied, text));
        }
        let seconds = u64::try_from(message.validity_duration).unwrap_or(0);
        let now = OffsetDateTime::now_utc();
        let signed = self
            .authority
            .sign(&request, Duration::from_secs(seconds), now)?;
        tracing::debug!(%node, %id, "certificate issued");
        Ok(signed)
    }
}

/// The node in whose name a request comes: the one that its token proves, or the one that it says where the token allows any.
fn node_of<T>(request: &Request<T>) -> Result<Arc<str>, Refusal> {
    let denied = |text: String| Refusal::new("node", Code::PermissionDenied, text);
    let peer = request.extensions().get::<Peer>();
    let peer = peer.ok_or_else(|| denied("nobody has said who asks".to_owned()))?;
    let said = request.metadata().get(NODE).map(|node| node.to_str());
    match (peer, said) {
        (_, Some(Err(_))) => Err(denied(format!("metadata {NODE} is not text"))),
        (peer, Some(Ok(node))) => {
            peer.claim(node).map_err(|e| denied(e.to_string()))?;
            Ok(Arc::from(node))
        }
        (Peer::Node(node), None) => Ok(Arc::clone(node)),
        (Peer::AnyNode, None) => Err(denied(format!(
            "metadata {NODE} is missing: say which node asks"
        ))),
    }
}

#[tonic::async_trait]
impl IstioCertificateService for SigningService {
    async fn create_certificate(
        &self,
        request: Request<IstioCertificateRequest>,
    ) -> Result<Response<IstioCertificateResponse>, Status> {
        let node = node_of(&request);
        let signed = node.and_then(|node| {
            let signed = self.sign(&node, request.get_ref());
            signed.inspect_err(|refusal| {
                tracing::warn!(%node, "certificate refused: {}", refusal.status.message());
            })
        });
        match signed {
            Ok(cert_chain) => Ok(Response::new(IstioCertificateResponse { cert_chain })),
            Err(refusal) => {
                self.authority.counts.refuse(refusal.reason);
                Err(refusal.status)
            }
        }
    }
}
