//! The gRPC server.

use std::pin::Pin;

use futures::Stream;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use weft_proto::wire::admin::v1 as wire;
use weft_proto::wire::admin::v1::admin_server::{Admin, AdminServer};

use super::status::{self, SharedFacts};
use super::{Observed, edges};
use crate::engine::Engine;
use crate::engine::view::Page;
use crate::engine::worker::{EngineHandle, EngineStopped};
use crate::identity::SharedIdentities;
use crate::xds::SharedStatus;

/// Rows on their way to a client that reads slowly.
const ROWS: usize = 256;

pub(super) type Rows<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Answers from the engine's view.
#[derive(Clone)]
pub struct AdminService {
    /// The engine.
    pub engine: EngineHandle,
    /// The stream to the control plane.
    pub xds: SharedStatus,
    /// Everything else.
    pub facts: SharedFacts,
    /// Connections.
    pub observed: Observed,
    /// Certificates of local workloads.
    pub identities: SharedIdentities,
}

/// Serves on `listener` until `drain` is cancelled.
///
/// # Errors
/// When the transport fails.
pub async fn serve(
    service: AdminService,
    listener: UnixListener,
    drain: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    tonic::transport::Server::builder()
        .add_service(AdminServer::new(service))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), drain.cancelled_owned())
        .await
}

impl AdminService {
    /// Streams pages one by one, so that the engine is held for one page at a time and none waits in memory.
    fn pages<T, K>(
        &self,
        page: impl Fn(&Engine, Option<&K>) -> Page<T, K> + Copy + Send + 'static,
    ) -> Response<Rows<T>>
    where
        T: Send + 'static,
        K: Send + 'static,
    {
        let (rows, queue) = mpsc::channel(ROWS);
        let engine = self.engine.clone();
        // Ends with the client: then sending fails.
        tokio::spawn(async move {
            let mut after: Option<K> = None;
            loop {
                let from = after.take();
                let asked = engine.query(move |e| page(e, from.as_ref())).await;
                let found = match asked {
                    Ok(found) => found,
                    Err(e) => {
                        let _ = rows.send(Err(stopped(e))).await;
                        return;
                    }
                };
                for row in found.rows {
                    if rows.send(Ok(row)).await.is_err() {
                        return;
                    }
                }
                after = found.next;
                if after.is_none() {
                    return;
                }
            }
        });
        Response::new(Box::pin(ReceiverStream::new(queue)))
    }
}

pub(super) fn stopped(error: EngineStopped) -> Status {
    Status::unavailable(error.to_string())
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn get_status(
        &self,
        _: Request<wire::GetStatusRequest>,
    ) -> Result<Response<wire::Status>, Status> {
        let look = |engine: &Engine| (engine.summary(), engine.problems());
        let (mut summary, problems) = self.engine.query(look).await.map_err(stopped)?;
        let (facts, xds) = (self.facts.snapshot(), self.xds.snapshot());
        summary.maps.extend(self.observed.usage(&facts.counters()));
        let identities = self.identities.snapshot();
        let mut status = status::status(&facts, &xds, summary, &problems);
        status.warnings.extend(identities.warnings());
        status.identities = Some(identities.summary());
        Ok(Response::new(status))
    }

    type ListServicesStream = Rows<wire::Service>;

    async fn list_services(
        &self,
        _: Request<wire::ListRequest>,
    ) -> Result<Response<Self::ListServicesStream>, Status> {
        Ok(self.pages(|engine, after: Option<&String>| engine.services(after.map(String::as_str))))
    }

    type ListBackendsStream = Rows<wire::Backend>;

    async fn list_backends(
        &self,
        _: Request<wire::ListRequest>,
    ) -> Result<Response<Self::ListBackendsStream>, Status> {
        Ok(self.pages(Engine::backends))
    }

    type ListWorkloadsStream = Rows<wire::Workload>;

    async fn list_workloads(
        &self,
        _: Request<wire::ListRequest>,
    ) -> Result<Response<Self::ListWorkloadsStream>, Status> {
        Ok(
            self.pages(|engine, after: Option<&String>| {
                engine.workloads(after.map(String::as_str))
            }),
        )
    }

    type ListFlowsStream = Rows<wire::FlowItem>;

    async fn list_flows(
        &self,
        request: Request<wire::ListFlowsRequest>,
    ) -> Result<Response<Self::ListFlowsStream>, Status> {
        self.observed.flows(request.into_inner())
    }

    type ListConntrackStream = Rows<wire::Connection>;

    async fn list_conntrack(
        &self,
        request: Request<wire::ListConntrackRequest>,
    ) -> Result<Response<Self::ListConntrackStream>, Status> {
        self.observed
            .connections(request.into_inner(), self.engine.clone())
    }

    type ListPoliciesStream = Rows<wire::Policy>;

    async fn list_policies(
        &self,
        _: Request<wire::ListRequest>,
    ) -> Result<Response<Self::ListPoliciesStream>, Status> {
        let rows = self
            .engine
            .query(Engine::policy_objects)
            .await
            .map_err(stopped)?;
        let rows = futures::stream::iter(rows.into_iter().map(Ok));
        Ok(Response::new(Box::pin(rows)))
    }

    type ListCertificatesStream = Rows<wire::Certificate>;

    async fn list_certificates(
        &self,
        _: Request<wire::ListRequest>,
    ) -> Result<Response<Self::ListCertificatesStream>, Status> {
        let all = self.identities.snapshot().certificates;
        let rows = futures::stream::iter(all.into_iter().map(|c| Ok(c.row())));
        Ok(Response::new(Box::pin(rows)))
    }

    async fn check(
        &self,
        request: Request<wire::CheckRequest>,
    ) -> Result<Response<wire::CheckReply>, Status> {
        self.observed
            .check(request.into_inner(), &self.engine)
            .await
    }

    type ListEdgesStream = Rows<wire::EdgeItem>;

    async fn list_edges(
        &self,
        request: Request<wire::ListEdgesRequest>,
    ) -> Result<Response<Self::ListEdgesStream>, Status> {
        let items = edges::look(self, request.into_inner().open).await?;
        Ok(Response::new(Box::pin(futures::stream::iter(
            items.into_iter().map(Ok),
        ))))
    }
}
