//! A collector in a test's hand: it keeps the spans that agents send over OTLP's gRPC.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use weft_lab::netns::Netns;

use crate::Result;

/// A span with what its resource says.
#[derive(Clone, Debug)]
pub struct Received {
    /// As it came.
    pub span: Span,
    resource: Vec<KeyValue>,
}

impl Received {
    /// An attribute of the span as text; empty if there is none.
    #[must_use]
    pub fn attribute(&self, key: &str) -> String {
        text(&self.span.attributes, key)
    }

    /// Its span events of this name, in order.
    #[must_use]
    pub fn moments(&self, name: &str) -> Vec<Moment> {
        let events = self.span.events.iter().filter(|event| event.name == name);
        events.cloned().map(Moment).collect()
    }

    /// An attribute of its resource, likewise.
    #[must_use]
    pub fn resource(&self, key: &str) -> String {
        text(&self.resource, key)
    }
}

/// A span event.
#[derive(Clone, Debug)]
pub struct Moment(Event);

impl Moment {
    /// Nanoseconds since 1970.
    #[must_use]
    pub fn time_unix_nano(&self) -> u64 {
        self.0.time_unix_nano
    }

    /// An attribute; 0 if there is none that is a number.
    #[must_use]
    pub fn number(&self, key: &str) -> u64 {
        text(&self.0.attributes, key).parse().unwrap_or_default()
    }
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|a| a.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Received>>>);

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for of_resource in request.into_inner().resource_spans {
            let resource = of_resource.resource.unwrap_or_default().attributes;
            let scopes = of_resource.scope_spans.into_iter();
            kept.extend(scopes.flat_map(|s| s.spans).map(|span| Received {
                span,
                resource: resource.clone(),
            }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A running collector; it ends when dropped.
pub struct Collector {
    kept: Kept,
    runtime: Option<Runtime>,
}

impl Collector {
    /// Listens on `address` in the network namespace `netns`.
    ///
    /// # Errors
    /// When the address is taken.
    pub fn start(netns: &Netns, address: SocketAddr) -> Result<Self> {
        let listener = netns.run(|| TcpListener::bind(address))??;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let kept = Kept::default();
        let service = TraceServiceServer::new(kept.clone());
        let incoming = {
            let _inside = runtime.enter();
            TcpListenerStream::new(tokio::net::TcpListener::from_std(listener)?)
        };
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming),
        );
        Ok(Self {
            kept,
            runtime: Some(runtime),
        })
    }

    /// All spans that have come.
    #[must_use]
    pub fn spans(&self) -> Vec<Received> {
        let kept = self.kept.0.lock();
        kept.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
