//! Envoy's spans of requests: it is told to make some on the way of its listeners, and sends them to the socket of its control plane.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use weft_proto::convert::tracing::with_spans;
use weft_proto::envoy::google::protobuf::Any;

use super::span_wire::Export;
use crate::otlp::{RequestSink, Sampling};

/// Of the one method that there is.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

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

    /// What Envoy is sent, with the wish for spans.
    pub(super) fn wanted_in(&self, resource: Any) -> Any {
        with_spans(resource, |service| self.sampling.share(service))
    }
}

impl UnaryService<Export> for RequestSpans {
    type Response = ExportTraceServiceResponse;
    type Future = Ready<Result<Response<Self::Response>, Status>>;

    fn call(&mut self, request: Request<Export>) -> Self::Future {
        let spans = request.into_inner().spans();
        let rejected = spans.map(|span| i64::from(!self.sink.take(span))).sum();
        ready(Ok(Response::new(ExportTraceServiceResponse {
            partial_success: (rejected > 0).then(|| ExportTracePartialSuccess {
                rejected_spans: rejected,
                error_message: "too many at a time".to_owned(),
            }),
        })))
    }
}

impl NamedService for RequestSpans {
    const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
}

impl Service<http::Request<Body>> for RequestSpans {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != EXPORT {
            let answer = Status::unimplemented("there is only Export").into_http();
            return ready(Ok(answer)).boxed();
        }
        let service = self.clone();
        async move {
            let codec = ProstCodec::<ExportTraceServiceResponse, Export>::default();
            Ok(Grpc::new(codec).unary(service, request).await)
        }
        .boxed()
    }
}
