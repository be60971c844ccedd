//! Spans for the audience: what an OpenTelemetry collector would be sent, received here.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use weft_lab::Node;

/// Where it listens, on loopback of each node.
const ADDRESS: &str = "127.0.0.1:4318";
/// Larger requests are none of Weft's.
const MOST_BYTES: usize = 16 << 20;
/// Spans that are kept: the newest.
const MOST_SPANS: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(10);

/// What agents are given with `--otlp`.
pub(crate) const URL: &str = "http://127.0.0.1:4318/v1/traces";

/// The newest spans of all nodes. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Traces(Arc<Mutex<Vec<Span>>>);

impl Traces {
    /// Receives on a node, until the process ends.
    pub(crate) fn receive_on(&self, node: &Node) -> Result<()> {
        let listener = node.netns().run(|| TcpListener::bind(ADDRESS))?;
        let listener = listener.with_context(|| format!("{ADDRESS} on {}", node.name()))?;
        let traces = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let traces = traces.clone();
                thread::spawn(move || while traces.request(&stream).is_ok() {});
            }
        });
        Ok(())
    }

    /// The newest span that is an error and is about `pod` as the one who asked.
    pub(crate) fn refusal_of(&self, pod: &str) -> Option<Span> {
        let spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut newest = spans.iter().rev();
        let is = |s: &&Span| {
            attribute(s, "weft.verdict") == "denied" && attribute(s, "weft.source.pod") == pod
        };
        newest.find(is).cloned()
    }

    fn keep(&self, request: ExportTraceServiceRequest) {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let scopes = request.resource_spans.into_iter();
        let scopes = scopes.flat_map(|of_resource| of_resource.scope_spans);
        spans.extend(scopes.flat_map(|scope| scope.spans));
        let surplus = spans.len().saturating_sub(MOST_SPANS);
        spans.drain(..surplus);
    }

    /// One request of HTTP/1.1, as the agents send it.
    fn request(&self, stream: &TcpStream) -> Result<()> {
        let mut reader = BufReader::new(stream);
        let (mut length, mut is_traces) = (0, false);
        loop {
            let mut line = String::new();
            ensure!(reader.read_line(&mut line)? > 0, "closed");
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            is_traces |= line.starts_with("post /v1/traces ");
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        ensure!(length <= MOST_BYTES, "too large");
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if is_traces {
            self.keep(ExportTraceServiceRequest::decode(body.as_slice())?);
        }
        let mut stream = stream;
        stream.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n",
        )?;
        stream.set_read_timeout(Some(PATIENCE * 6))?;
        Ok(())
    }
}

/// An attribute as text; empty if there is none.
fn attribute(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|a| a.key == key);
    match found.and_then(|a| a.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// A span as lines for people.
pub(crate) fn lines(span: &Span) -> Vec<String> {
    let get = |key: &str| attribute(span, key);
    let end = |which: &str, address: &str, port: &str| {
        format!(
            "{}/{} on {}, service account {}, {}:{}",
            get(&format!("weft.{which}.namespace")),
            get(&format!("weft.{which}.pod")),
            get(&format!("weft.{which}.node")),
            get(&format!("weft.{which}.service_account")),
            get(address),
            get(port),
        )
    };
    let kind = match span.kind() {
        SpanKind::Client => "client",
        SpanKind::Server => "server",
        _ => "other",
    };
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let status = span.status.as_ref();
    vec![
        format!("trace   {}", hex(&span.trace_id)),
        format!("span    {}  {}  ({kind})", hex(&span.span_id), span.name),
        format!(
            "status  ERROR  {}",
            status.map_or("", |status| status.message.as_str())
        ),
        format!("from    {}", end("source", "source.address", "source.port")),
        format!(
            "to      {}",
            end("destination", "destination.address", "destination.port")
        ),
        format!("policy  {}  ({})", get("weft.policy"), get("error.type")),
    ]
}

/// Waits until a refusal of `pod` has come.
pub(crate) fn wait(traces: &Traces, pod: &str) -> Result<Span> {
    let deadline = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < deadline {
        if let Some(span) = traces.refusal_of(pod) {
            return Ok(span);
        }
        thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("no span of a refusal of {pod} has come within {PATIENCE:?}")
}
