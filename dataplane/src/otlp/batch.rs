//! Spans by the workload that they are of.

use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

use super::attributes::resource;
use super::span::Told;

/// One request. An endpoint's names are shared by all its events, so its place in memory tells it apart.
pub(super) fn request(spans: Vec<Told>) -> ExportTraceServiceRequest {
    let mut places: HashMap<usize, usize> = HashMap::new();
    let mut resource_spans: Vec<ResourceSpans> = Vec::new();
    // Kept until the end: a place is told apart only while it is in use.
    let mut ends = Vec::with_capacity(spans.len());
    for Told { of, span, .. } in spans {
        let place = *places.entry(Arc::as_ptr(&of) as usize).or_insert_with(|| {
            resource_spans.push(ResourceSpans {
                resource: Some(resource(&of)),
                scope_spans: vec![scope()],
                schema_url: opentelemetry_semantic_conventions::SCHEMA_URL.to_owned(),
            });
            resource_spans.len() - 1
        });
        ends.push(of);
        put(&mut resource_spans, place, span);
    }
    ExportTraceServiceRequest { resource_spans }
}

fn put(resource_spans: &mut [ResourceSpans], place: usize, span: Span) {
    let scope = resource_spans
        .get_mut(place)
        .and_then(|r| r.scope_spans.first_mut());
    if let Some(scope) = scope {
        scope.spans.push(span);
    }
}

fn scope() -> ScopeSpans {
    ScopeSpans {
        scope: Some(InstrumentationScope {
            name: "weft".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    }
}
