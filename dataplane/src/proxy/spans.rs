//! Envoy's spans of requests: it is told to make some on the way of its listeners, and sends them to the socket of its control plane.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use tonic::{Request, Response, Status};
use weft_proto::convert::tracing::with_spans;
use weft_proto::envoy::envoy::service::discovery::v3::DeltaDiscoveryResponse;

use crate::otlp::{RequestSink, Sampling};

/// Takes Envoy's spans.
#[derive(Clone, Debug)]
pub struct RequestSpans {
    sink: RequestSink,
    sampling: Arc<Sampling>,
}

impl RequestSpans {
    /// Passes spans on to `sink`; `sampling` has the shares of requests whose clients have not decided.
    #[must_use]
    pub fn new(sink: RequestSink, sampling: Sampling) -> Self {
        Self {
            sink,
            sampling: Arc::new(sampling),
        }
    }

    /// The service that Envoy sends to.
    #[must_use]
    pub fn into_service(self) -> TraceServiceServer<Self> {
        TraceServiceServer::new(self)
    }

    /// What Envoy is sent, with the wish for spans.
    pub(super) fn wanted_in(&self, mut response: DeltaDiscoveryResponse) -> DeltaDiscoveryResponse {
        for resource in &mut response.resources {
            let traced = resource.resource.take();
            let share = |service: Option<&str>| self.sampling.share(service);
            resource.resource = traced.map(|any| with_spans(any, share));
        }
        response
    }
}

#[tonic::async_trait]
impl TraceService for RequestSpans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        let mut rejected = 0;
        for span in scopes.flat_map(|scope| scope.spans) {
            rejected += i64::from(!self.sink.take(span));
        }
        Ok(Response::new(ExportTraceServiceResponse {
            partial_success: (rejected > 0).then(|| ExportTracePartialSuccess {
                rejected_spans: rejected,
                error_message: "too many at a time".to_owned(),
            }),
        }))
    }
}
