//! An agent that has seen a lot, in memory: who looks at it cannot tell it from a real one.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::Stream;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};
use weft_proto::wire::admin::v1 as wire;
use weft_proto::wire::admin::v1::admin_server::{Admin, AdminServer};
use weft_proto::wire::admin::v1::edge_item::Item;
use weft_proto::wire::flow::v1::Traffic;

use crate::Result;

type Rows<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Makes the edges of a moment.
type Edges = dyn Fn(Duration) -> Vec<wire::Edge> + Send + Sync;

/// A running agent of that sort; it ends when dropped.
pub struct Crowd {
    runtime: Option<Runtime>,
}

#[derive(Clone)]
struct Served {
    start: Instant,
    edges: Arc<Edges>,
}

impl Crowd {
    /// Listens on `socket`; says what `edges` makes of the time since then.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn start(
        socket: &Path,
        edges: impl Fn(Duration) -> Vec<wire::Edge> + Send + Sync + 'static,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(socket)?
        };
        let served = Served {
            start: Instant::now(),
            edges: Arc::new(edges),
        };
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(AdminServer::new(served))
                .serve_with_incoming(UnixListenerStream::new(listener)),
        );
        Ok(Self {
            runtime: Some(runtime),
        })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// So many workloads in a dozen namespaces, and so many pairs of them: each opens a few connections a second, some are refused.
///
/// # Panics
/// When there are not that many pairs.
#[must_use]
pub fn busy(workloads: usize, edges: usize, since: Duration) -> Vec<wire::Edge> {
    assert!(edges <= workloads * 20, "too many edges");
    let name = |n: usize| {
        let namespace = format!("team-{:02}", n % 12);
        (namespace, format!("service-{n:03}"))
    };
    let pair = |n: usize| {
        let from = n % workloads;
        // Mostly onwards, so that there is an order among them.
        let to = (from + 1 + (n / workloads) * 7 + from % 5) % workloads;
        let ((source_namespace, source_workload), to) = (name(from), name(to));
        let rate = 1 + n as u64 % 9;
        let opened = (since.as_secs_f64() * rate as f64) as u64;
        let refused = if n % 40 == 7 { opened / 4 } else { 0 };
        let mut rtt = vec![0; 28];
        rtt[if n % 25 == 3 { 27 } else { 13 }] = opened;
        wire::Edge {
            source_namespace,
            source_workload,
            destination_namespace: to.0.clone(),
            service: format!("{}/{}", to.0, to.1),
            destination_workload: to.1,
            direction: "egress".into(),
            opened,
            closed: opened,
            denied: vec![wire::ReasonCount {
                reason: "isolated".into(),
                count: refused,
            }],
            bytes: Some(Traffic {
                sent: opened * 900,
                received: opened * 30_000,
            }),
            open: rate,
            duration: rtt.clone(),
            rtt,
            ..Default::default()
        }
    };
    (0..edges).map(pair).collect()
}

fn none<T>() -> Result<Response<Rows<T>>, Status>
where
    T: Send + 'static,
{
    Ok(Response::new(Box::pin(futures::stream::empty())))
}

#[tonic::async_trait]
impl Admin for Served {
    type ListServicesStream = Rows<wire::Service>;
    type ListBackendsStream = Rows<wire::Backend>;
    type ListWorkloadsStream = Rows<wire::Workload>;
    type ListFlowsStream = Rows<wire::FlowItem>;
    type ListConntrackStream = Rows<wire::Connection>;
    type ListPoliciesStream = Rows<wire::Policy>;
    type ListEdgesStream = Rows<wire::EdgeItem>;
    type ListCertificatesStream = Rows<wire::Certificate>;

    async fn get_status(
        &self,
        _: Request<wire::GetStatusRequest>,
    ) -> Result<Response<wire::Status>, Status> {
        Ok(Response::new(wire::Status::default()))
    }

    async fn list_services(
        &self,
        _: Request<wire::ListRequest>,
    ) -> Result<Response<Self::ListServicesStream>, Status> {
        none()
    }

    async fn list_backends(
        &self,
        _: Request<wire::ListRequest>,
    ) -> Result<Response<Self::ListBackendsStream>, Status> {
        none()
    }

    async fn list_workloads(
        &self,
        _: Request<wire::ListRequest>,
    ) -> Result<Response<Self::ListWorkloadsStream>, Status> {
        none()
    }

    async fn list_flows(
        &self,
        _: Request<wire::ListFlowsRequest>,
    ) -> Result<Response<Self::ListFlowsStream>, Status> {
        none()
    }

    async fn list_conntrack(
        &self,
        _: Request<wire::ListConntrackRequest>,
    ) -> Result<Response<Self::ListConntrackStream>, Status> {
        none()
    }

    async fn list_policies(
        &self,
        _: Request<wire::ListRequest>,
    ) -> Result<Response<Self::ListPoliciesStream>, Status> {
        none()
    }

    async fn list_certificates(
        &self,
        _: Request<wire::ListRequest>,
    ) -> Result<Response<Self::ListCertificatesStream>, Status> {
        none()
    }

    async fn check(
        &self,
        _: Request<wire::CheckRequest>,
    ) -> Result<Response<wire::CheckReply>, Status> {
        Err(Status::unimplemented("a crowd answers no questions"))
    }

    async fn list_edges(
        &self,
        _: Request<wire::ListEdgesRequest>,
    ) -> Result<Response<Self::ListEdgesStream>, Status> {
        let head = wire::EdgesHead {
            node: "crowd".into(),
            started_unix_nano: 1,
            ..Default::default()
        };
        let edges = (self.edges)(self.start.elapsed());
        let items = std::iter::once(Item::Head(head)).chain(edges.into_iter().map(Item::Edge));
        let items: Vec<_> = items
            .map(|item| Ok(wire::EdgeItem { item: Some(item) }))
            .collect();
        Ok(Response::new(Box::pin(futures::stream::iter(items))))
    }
}
