//! Answers Envoy when another node opens a tunnel: has the address that it comes from the identity that its certificate says?
//!
//! What comes out of a tunnel is judged by the client's address. A node that has certificates of its own pods must therefore not be
//! believed to speak for the pods of others.

use std::net::IpAddr;

use tonic::{Code, Request, Response, Status};
use weft_proto::envoy::envoy::config::core::v3::address::Address as AddressKind;
use weft_proto::envoy::envoy::service::auth::v3::attribute_context::Peer;
use weft_proto::envoy::envoy::service::auth::v3::authorization_server::{
    Authorization, AuthorizationServer,
};
use weft_proto::envoy::envoy::service::auth::v3::{CheckRequest, CheckResponse};
use weft_proto::envoy::google::rpc::Status as RpcStatus;

use crate::engine::worker::EngineHandle;

/// Knows whose an address is.
pub struct Owners {
    engine: EngineHandle,
}

impl Owners {
    /// By what `engine` knows of workloads.
    #[must_use]
    pub const fn new(engine: EngineHandle) -> Self {
        Self { engine }
    }

    /// The service that Envoy asks.
    #[must_use]
    pub fn into_service(self) -> AuthorizationServer<Self> {
        AuthorizationServer::new(self)
    }

    /// Why it is refused, if it is.
    async fn refusal(&self, peer: Option<&Peer>) -> Result<Option<String>, Status> {
        let Some(address) = peer.and_then(address_of) else {
            return Ok(Some("no address".to_owned()));
        };
        let claimed = peer.map_or("", |peer| peer.principal.as_str()).to_owned();
        let known = self
            .engine
            .query(move |engine| engine.policies().identity_at(address))
            .await
            .map_err(|_| Status::unavailable("the agent is stopping"))?;
        Ok(match known {
            Some(known) if known == claimed && !claimed.is_empty() => None,
            Some(known) => Some(format!("{address} is {known}, not {claimed:?}")),
            None => Some(format!(
                "{address} is no pod's; the certificate says {claimed:?}"
            )),
        })
    }
}

fn address_of(peer: &Peer) -> Option<IpAddr> {
    let Some(AddressKind::SocketAddress(socket)) = peer.address.as_ref()?.address.as_ref() else {
        return None;
    };
    let address: IpAddr = socket.address.parse().ok()?;
    Some(address.to_canonical())
}

#[tonic::async_trait]
impl Authorization for Owners {
    async fn check(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        let attributes = request.into_inner().attributes;
        let peer = attributes.as_ref().and_then(|a| a.source.as_ref());
        let refusal = self.refusal(peer).await?;
        if let Some(reason) = &refusal {
            tracing::warn!("a tunnel is refused: {reason}");
        }
        let code = match refusal {
            None => Code::Ok,
            Some(_) => Code::PermissionDenied,
        };
        Ok(Response::new(CheckResponse {
            status: Some(RpcStatus {
                code: code as i32,
                message: refusal.unwrap_or_default(),
                ..Default::default()
            }),
            ..Default::default()
        }))
    }
}
