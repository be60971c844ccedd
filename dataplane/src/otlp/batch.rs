//! Encoded spans by the workload that they are of.

use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use prost::{encode_length_delimiter, length_delimiter_len};
use tonic::codegen::Bytes;
use weft_proto::wire::flow::v1::Endpoint;

use super::attributes::resource;

/// Tags and wire type of `ExportTraceServiceRequest.resource_spans`, `ResourceSpans.scope_spans` and `ScopeSpans.spans`.
const RESOURCE_SPANS: u8 = 1 << 3 | LENGTH_DELIMITED;
const SCOPE_SPANS: u8 = 2 << 3 | LENGTH_DELIMITED;
const SPANS: u8 = 2 << 3 | LENGTH_DELIMITED;
const LENGTH_DELIMITED: u8 = 2;

/// What is to go in one request.
#[derive(Debug, Default)]
pub(super) struct Batch {
    groups: Vec<Group>,
    places: HashMap<usize, usize>,
    spans: usize,
}

/// An endpoint's names are shared by all its events, so its place in memory tells it apart.
#[derive(Debug)]
struct Group {
    of: Arc<Endpoint>,
    /// As fields of a `ScopeSpans`.
    spans: Vec<u8>,
}

impl Batch {
    pub(super) fn len(&self) -> usize {
        self.spans
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans == 0
    }

    /// Adds the span that `common`, which is encoded, and `own` are together.
    pub(super) fn put(&mut self, of: &Arc<Endpoint>, common: &[u8], own: &Span) {
        let place = Arc::as_ptr(of) as usize;
        let place = *self.places.entry(place).or_insert_with(|| {
            self.groups.push(Group {
                of: Arc::clone(of),
                spans: Vec::new(),
            });
            self.groups.len() - 1
        });
        let Some(group) = self.groups.get_mut(place) else {
            return;
        };
        open(SPANS, common.len() + own.encoded_len(), &mut group.spans);
        group.spans.extend_from_slice(common);
        append(own, &mut group.spans);
        self.spans += 1;
    }

    /// An encoded `ExportTraceServiceRequest`.
    pub(super) fn encode(&self) -> Bytes {
        let scope = scope().encode_to_vec();
        let held: usize = self.groups.iter().map(|g| g.spans.len() + 512).sum();
        let mut request = Vec::with_capacity(held);
        for group in &self.groups {
            let head = ResourceSpans {
                resource: Some(resource(&group.of)),
                scope_spans: Vec::new(),
                schema_url: opentelemetry_semantic_conventions::SCHEMA_URL.to_owned(),
            };
            let spans = scope.len() + group.spans.len();
            let length = head.encoded_len() + 1 + length_delimiter_len(spans) + spans;
            open(RESOURCE_SPANS, length, &mut request);
            append(&head, &mut request);
            open(SCOPE_SPANS, spans, &mut request);
            request.extend_from_slice(&scope);
            request.extend_from_slice(&group.spans);
        }
        request.into()
    }
}

/// Begins a field that is so long.
fn open(tag: u8, length: usize, into: &mut Vec<u8>) {
    into.push(tag);
    // There is always room in a vector.
    let _ = encode_length_delimiter(length, into);
}

fn append(message: &impl Message, to: &mut Vec<u8>) {
    let _ = message.encode(to);
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
