//! Encoded spans by the workload that they are of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use prost::Message;
use prost::length_delimiter_len;
use weft_proto::wire::flow::v1::Endpoint;

use super::attributes::resource;
use super::parts::Parts;
use super::wire;

/// `ExportTraceServiceRequest.resource_spans`, `ResourceSpans.scope_spans` and `ScopeSpans.spans`.
const RESOURCE_SPANS: u32 = 1;
const SCOPE_SPANS: u32 = 2;
const SPANS: u32 = 2;

/// Buffers that are kept for the next batch, and the smallest and largest of them: new memory costs a page fault for every four spans.
const SPARE: usize = 8;
const SMALLEST: usize = 1 << 10;
const LARGEST: usize = 2 << 20;

/// Buffers of batches that are gone. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spare {
    fn take(&self) -> Vec<u8> {
        self.lock().pop().unwrap_or_default()
    }

    /// Gives a buffer back.
    fn give(&self, mut buffer: Vec<u8>) {
        let mut kept = self.lock();
        if kept.len() < SPARE && (SMALLEST..=LARGEST).contains(&buffer.capacity()) {
            buffer.clear();
            kept.push(buffer);
        }
    }

    /// Gives back what a request was made of, if nobody reads it any more.
    pub(super) fn recover(&self, request: Parts) {
        for part in request {
            if let Ok(buffer) = part.try_into_mut() {
                // Of the only reader: this copies nothing.
                self.give(buffer.into());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to go in one request.
#[derive(Debug, Default)]
pub(super) struct Batch {
    groups: Vec<Group>,
    places: HashMap<usize, usize>,
    spans: usize,
    spare: Spare,
}

/// An endpoint's names are shared by all its events, so its place in memory tells it apart.
#[derive(Debug)]
struct Group {
    of: Arc<Endpoint>,
    /// As fields of a `ScopeSpans`.
    spans: Vec<u8>,
}

impl Batch {
    /// An empty one that takes its memory from `spare`.
    pub(super) fn new(spare: &Spare) -> Self {
        Self {
            spare: spare.clone(),
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.spans
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans == 0
    }

    /// Adds the span that `common` and `own` are together, both encoded.
    pub(super) fn put(&mut self, of: &Arc<Endpoint>, common: &[u8], own: &[u8]) {
        let place = Arc::as_ptr(of) as usize;
        let place = *self.places.entry(place).or_insert_with(|| {
            self.groups.push(Group {
                of: Arc::clone(of),
                spans: self.spare.take(),
            });
            self.groups.len() - 1
        });
        let Some(group) = self.groups.get_mut(place) else {
            return;
        };
        wire::open(SPANS, common.len() + own.len(), &mut group.spans);
        group.spans.extend_from_slice(common);
        group.spans.extend_from_slice(own);
        self.spans += 1;
    }

    /// As an encoded `ExportTraceServiceRequest`.
    pub(super) fn encode(self) -> Parts {
        let scope = scope().encode_to_vec();
        let mut request = Parts::default();
        for group in self.groups {
            let head = ResourceSpans {
                resource: Some(resource(&group.of)),
                scope_spans: Vec::new(),
                schema_url: opentelemetry_semantic_conventions::SCHEMA_URL.to_owned(),
            };
            let spans = scope.len() + group.spans.len();
            let length = head.encoded_len() + 1 + length_delimiter_len(spans) + spans;
            let mut start = Vec::new();
            wire::open(RESOURCE_SPANS, length, &mut start);
            append(&head, &mut start);
            wire::open(SCOPE_SPANS, spans, &mut start);
            start.extend_from_slice(&scope);
            request.push(start);
            request.push(group.spans);
        }
        request
    }
}

fn append(message: &impl Message, to: &mut Vec<u8>) {
    // There is always room in a vector.
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

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::Span;

    use super::*;

    fn end(pod: &str) -> Arc<Endpoint> {
        Arc::new(Endpoint {
            pod: pod.to_owned(),
            ..Default::default()
        })
    }

    fn span(name: &str, id: u8) -> (Vec<u8>, Vec<u8>) {
        let common = Span {
            name: name.to_owned(),
            ..Default::default()
        };
        let own = Span {
            span_id: vec![id; 8],
            ..Default::default()
        };
        (common.encode_to_vec(), own.encode_to_vec())
    }

    #[test]
    fn each_span_is_with_its_resource_also_in_memory_that_was_used() {
        let (spare, ends) = (Spare::default(), [end("a"), end("b")]);
        for round in 0..3_u8 {
            let mut batch = Batch::new(&spare);
            for id in 0..200 {
                let (common, own) = span(&format!("tcp {round}"), id);
                batch.put(&ends[usize::from(id % 2)], &common, &own);
            }
            assert_eq!(batch.len(), 200);
            let encoded = batch.encode();
            let whole: Vec<u8> = encoded.clone().into_iter().flatten().collect();
            assert_eq!(whole.len(), encoded.len());
            let request = ExportTraceServiceRequest::decode(whole.as_slice()).expect("OTLP");
            spare.recover(encoded);
            assert_eq!(request.resource_spans.len(), 2);
            for (place, of) in request.resource_spans.iter().enumerate() {
                let resource = of.resource.as_ref().expect("a resource");
                assert_eq!(resource, &super::resource(&ends[place]));
                let [scope] = of.scope_spans.as_slice() else {
                    panic!("{of:?}");
                };
                assert_eq!(scope.scope.as_ref().map(|s| s.name.as_str()), Some("weft"));
                assert_eq!(scope.spans.len(), 100);
                for (number, span) in scope.spans.iter().enumerate() {
                    assert_eq!(span.name, format!("tcp {round}"));
                    assert_eq!(span.span_id[0] as usize, 2 * number + place);
                }
            }
        }
        assert!(!spare.lock().is_empty() && spare.lock().len() <= SPARE);
    }
}
