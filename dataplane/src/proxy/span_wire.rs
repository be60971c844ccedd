//! OTLP as Envoy writes it: what a client has sent stands in a span as it came, also where it is no UTF-8, which a `string` of protobuf
//! must be. Read by the letter, one odd byte of one client would cost the spans of all who are told of in the same message.
//!
//! See <https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto>; what is not
//! needed is left out.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;

/// Bytes of a text that are kept: headers may have some 60 KiB, and many spans may wait.
const LONGEST: usize = 1_024;
/// A longer trace state is left out, as half of one means something else. W3C trace context asks for no more to be passed on.
const LONGEST_STATE: usize = 512;

/// `ExportTraceServiceRequest`
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Export {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<OfResource>,
}

/// `ResourceSpans`
#[derive(Clone, PartialEq, prost::Message)]
struct OfResource {
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<OfScope>,
}

/// `ScopeSpans`
#[derive(Clone, PartialEq, prost::Message)]
struct OfScope {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<EnvoySpan>,
}

/// `Span`
#[derive(Clone, PartialEq, prost::Message)]
struct EnvoySpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    trace_state: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    name: Vec<u8>,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<Attribute>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

/// `KeyValue`
#[derive(Clone, PartialEq, prost::Message)]
struct Attribute {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    value: Option<Text>,
}

/// `AnyValue`: Envoy's are all text.
#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(bytes = "vec", tag = "1")]
    string_value: Vec<u8>,
}

impl Export {
    /// All spans; what is no text has U+FFFD in its place.
    pub(super) fn spans(self) -> impl Iterator<Item = Span> {
        let scopes = self.resource_spans.into_iter().flat_map(|r| r.scope_spans);
        scopes.flat_map(|s| s.spans).map(Span::from)
    }
}

impl From<EnvoySpan> for Span {
    fn from(span: EnvoySpan) -> Self {
        Self {
            trace_id: span.trace_id,
            span_id: span.span_id,
            trace_state: state(span.trace_state),
            parent_span_id: span.parent_span_id,
            name: text(span.name),
            start_time_unix_nano: span.start_time_unix_nano,
            end_time_unix_nano: span.end_time_unix_nano,
            attributes: span.attributes.into_iter().map(KeyValue::from).collect(),
            flags: span.flags,
            ..Self::default()
        }
    }
}

impl From<Attribute> for KeyValue {
    fn from(attribute: Attribute) -> Self {
        let value = attribute.value.unwrap_or_default();
        Self {
            key: text(attribute.key),
            value: Some(AnyValue {
                value: Some(Value::StringValue(text(value.string_value))),
            }),
            ..Self::default()
        }
    }
}

fn state(bytes: Vec<u8>) -> String {
    match bytes.len() {
        0..=LONGEST_STATE => text(bytes),
        _ => String::new(),
    }
}

fn text(mut bytes: Vec<u8>) -> String {
    bytes.truncate(LONGEST);
    // What is left may be far less than what there is room for.
    bytes.shrink_to_fit();
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
    use prost::Message;

    use super::*;

    fn attribute(value: &str) -> KeyValue {
        Attribute {
            key: b"user_agent".to_vec(),
            value: Some(Text {
                string_value: value.as_bytes().to_vec(),
            }),
        }
        .into()
    }

    fn request(agent: &str) -> Vec<u8> {
        let span = Span {
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            trace_state: "vendor=1".to_owned(),
            parent_span_id: vec![3; 8],
            name: "GET".to_owned(),
            start_time_unix_nano: 4,
            end_time_unix_nano: 5,
            attributes: vec![attribute(agent)],
            flags: 1,
            ..Default::default()
        };
        let scope_spans = vec![ScopeSpans {
            spans: vec![span],
            ..Default::default()
        }];
        let resource_spans = vec![ResourceSpans {
            scope_spans,
            ..Default::default()
        }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    fn read(bytes: &[u8]) -> Vec<Span> {
        Export::decode(bytes).expect("OTLP").spans().collect()
    }

    #[test]
    fn what_is_text_is_read_as_opentelemetry_has_it() {
        let bytes = request("curl");
        let whole = ExportTraceServiceRequest::decode(&bytes[..]).expect("OTLP");
        let spans = whole.resource_spans[0].scope_spans[0].spans.clone();
        assert_eq!(read(&bytes), spans);
    }

    #[test]
    fn what_is_long_is_cut_and_half_a_state_is_none() {
        let long = "x".repeat(60_000);
        let told = read(&request(&long)).remove(0);
        assert_eq!(told.attributes, [attribute(&long[..LONGEST])]);
        assert_eq!(state(long.into_bytes()), "");
        assert_eq!(state(b"vendor=1".to_vec()), "vendor=1");
    }

    #[test]
    fn one_odd_byte_costs_no_span() {
        let mut bytes = request("cXrl");
        let place = bytes.iter().position(|b| *b == b'X').expect("it is there");
        bytes[place] = 0xff;
        assert!(ExportTraceServiceRequest::decode(&bytes[..]).is_err());
        assert_eq!(read(&bytes)[0].attributes, [attribute("c\u{fffd}rl")]);
    }
}
