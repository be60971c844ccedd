//! What Envoy says of a request, by the names of the semantic conventions (<https://opentelemetry.io/docs/specs/semconv/http/http-spans/>).
//!
//! Whoever asks may ask for anything: what is not known here is left out, and what is long is cut.

use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{Span, Status, status::StatusCode};
use opentelemetry_semantic_conventions::attribute as name;
use tonic::codegen::http::Uri;
use weft_proto::convert::tracing::{CAME_BY, FOR_SERVER, SERVICE, STANDS_FOR, WENT_BY};

use crate::flow::shown;
use crate::otlp::attributes::Attributes;

/// What Envoy writes where there is nothing.
const NOTHING: &str = "-";

/// What the agent wants to know of a span before it tells of it.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    /// As [`CAME_BY`] has it.
    pub(super) came_by: String,
    /// As [`WENT_BY`] has it.
    pub(super) went_by: String,
    /// Envoy stands for the server, not for the client.
    pub(super) for_server: bool,
    /// What the span says by itself.
    pub(super) attributes: Attributes,
    /// Of the answer; 0: none came.
    status: u64,
    /// Why there was none, in Envoy's letters.
    flags: String,
}

impl Meaning {
    /// Of what Envoy said.
    pub(super) fn of(said: Vec<KeyValue>) -> Self {
        let mut meaning = Self::default();
        for KeyValue { key, value, .. } in said {
            if let Some(Value::StringValue(text)) = value.and_then(|v| v.value) {
                meaning.take(&key, text);
            }
        }
        meaning
    }

    fn take(&mut self, key: &str, text: String) {
        if text.is_empty() || text == NOTHING {
            return;
        }
        match key {
            CAME_BY => self.came_by = text,
            WENT_BY => self.went_by = text,
            STANDS_FOR => self.for_server = text == FOR_SERVER,
            "http.url" => self.url(&text),
            "http.protocol" => self.protocol(&text),
            "http.status_code" => self.status = text.parse().unwrap_or_default(),
            "response_flags" => self.flags = shown(&text),
            "request_size" => self.number(name::HTTP_REQUEST_BODY_SIZE, &text),
            "response_size" => self.number(name::HTTP_RESPONSE_BODY_SIZE, &text),
            "http.method" => self.text(name::HTTP_REQUEST_METHOD, &text),
            "user_agent" => self.text(name::USER_AGENT_ORIGINAL, &text),
            "grpc.status_code" => self.text(name::RPC_RESPONSE_STATUS_CODE, &text),
            "upstream_cluster.name" => self.text("weft.envoy.cluster", &text),
            SERVICE => self.text(SERVICE, &text),
            _ => {}
        }
    }

    /// Without its query, which may be secret.
    fn url(&mut self, text: &str) {
        let Ok(uri) = text.parse::<Uri>() else {
            return;
        };
        self.text(name::URL_SCHEME, uri.scheme_str().unwrap_or_default());
        self.text(name::URL_PATH, uri.path());
        self.text(name::SERVER_ADDRESS, uri.host().unwrap_or_default());
        if let Some(port) = uri.port_u16() {
            self.attributes.number(name::SERVER_PORT, port.into());
        }
    }

    /// `HTTP/1.1`, `HTTP/2`
    fn protocol(&mut self, text: &str) {
        if let Some((protocol, version)) = text.split_once('/') {
            self.text(name::NETWORK_PROTOCOL_NAME, &protocol.to_lowercase());
            self.text(name::NETWORK_PROTOCOL_VERSION, version);
        }
    }

    fn text(&mut self, key: &str, value: &str) {
        self.attributes.text(key, &shown(value));
    }

    fn number(&mut self, key: &str, value: &str) {
        if let Ok(number) = value.parse() {
            self.attributes.number(key, number);
        }
    }

    /// Says how the request ended. True: it failed on this side of the client.
    pub(super) fn conclude(&mut self, span: &mut Span) -> bool {
        let (kind, least) = if self.for_server {
            (SpanKind::Server, 500)
        } else {
            (SpanKind::Client, 400)
        };
        span.kind = kind.into();
        let flags = std::mem::take(&mut self.flags);
        self.attributes.text("weft.envoy.response_flags", &flags);
        if self.status > 0 {
            let status = self.status;
            self.attributes
                .number(name::HTTP_RESPONSE_STATUS_CODE, status);
        }
        let is_error = self.status == 0 || self.status >= least;
        span.status = is_error.then(|| Status {
            message: String::new(),
            code: StatusCode::Error.into(),
        });
        if is_error {
            let status = self.status.to_string();
            let why = if self.status == 0 { &flags } else { &status };
            self.attributes.text(name::ERROR_TYPE, why);
        }
        self.status == 0 || self.status >= 500
    }
}
