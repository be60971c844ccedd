//! The OpenTelemetry Collector itself, built from its Go modules: it receives OTLP and writes what came to a file.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;
use weft_lab::{Lab, Node, Process};

use crate::Result;
use crate::wait::LONG;

/// Where it takes OTLP over gRPC.
pub const GRPC: u16 = 4317;
/// Where it takes OTLP over HTTP.
pub const HTTP: u16 = 4318;

/// A running collector; it ends when dropped.
pub struct Otelcol {
    file: PathBuf,
    // Killed when dropped.
    _process: Process,
}

/// A span as the collector wrote it.
#[derive(Clone, Debug)]
pub struct Span {
    /// Hexadecimal, 32 digits.
    pub trace: String,
    /// Hexadecimal, 16 digits.
    pub id: String,
    /// As `id`; empty: none.
    pub parent: String,
    /// `tcp shop/cart`
    pub name: String,
    /// 3 is a client's, 2 a server's.
    pub kind: u64,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// As `start`.
    pub end: u64,
    /// 2 is an error.
    pub status: u64,
    /// What the status says.
    pub message: String,
    attributes: BTreeMap<String, String>,
    resource: BTreeMap<String, String>,
    /// Traces that it links to.
    pub links: Vec<String>,
}

impl Span {
    /// An attribute as text; empty if there is none.
    #[must_use]
    pub fn attribute(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }

    /// An attribute that is a number.
    ///
    /// # Errors
    /// When it is none.
    pub fn number(&self, key: &str) -> Result<u64> {
        let text = self.attribute(key);
        text.parse()
            .with_context(|| format!("{key} is {text:?} in {self:?}"))
    }

    /// An attribute of its resource as text; empty if there is none.
    #[must_use]
    pub fn resource(&self, key: &str) -> &str {
        self.resource.get(key).map_or("", String::as_str)
    }
}

/// Its binary: `WEFT_TEST_COLLECTOR`, else the one that scripts/build-go has built.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn binary() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/go/collector");
    let path = env::var_os("WEFT_TEST_COLLECTOR").map_or(built, PathBuf::from);
    assert!(
        path.exists(),
        "no collector at {}: run scripts/build-go tests/collector, or name one in WEFT_TEST_COLLECTOR",
        path.display()
    );
    path
}

impl Otelcol {
    /// Starts it on `node`, on all its addresses.
    ///
    /// # Errors
    /// When it does not get ready.
    pub fn start(lab: &Lab, node: &Node) -> Result<Self> {
        Self::start_with(lab, node, "")
    }

    /// As [`Otelcol::start`], with TLS: `certificate` and `key` are PEM files.
    ///
    /// # Errors
    /// As there.
    pub fn start_tls(lab: &Lab, node: &Node, certificate: &Path, key: &Path) -> Result<Self> {
        let tls = format!(", tls: {{cert_file: {certificate:?}, key_file: {key:?}}}");
        Self::start_with(lab, node, &tls)
    }

    fn start_with(lab: &Lab, node: &Node, tls: &str) -> Result<Self> {
        let file = lab.dir().join("collected.jsonl");
        let config = lab.dir().join("collector.yaml");
        fs::write(&config, configuration(&file, tls))?;
        let command = node.command(binary()).arg("--config").arg(&config);
        let mut process = command.spawn()?;
        process.wait_for_line("Everything is ready", LONG)?;
        Ok(Self {
            file,
            _process: process,
        })
    }

    /// All spans that it has written so far.
    ///
    /// # Errors
    /// When a line of its file is no JSON.
    pub fn spans(&self) -> Result<Vec<Span>> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        // It may be in the middle of the last line.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut spans = Vec::new();
        for line in whole.lines() {
            let line: Value = serde_json::from_str(line).context("a line of the collector")?;
            for of_resource in list(&line, "resourceSpans") {
                let resource = of_resource.get("resource").map(attributes);
                let resource = resource.unwrap_or_default();
                let scopes = list(of_resource, "scopeSpans");
                for span in scopes.flat_map(|scope| list(scope, "spans")) {
                    spans.push(read(span, resource.clone()));
                }
            }
        }
        Ok(spans)
    }

    /// Names of all metrics that it has written so far.
    ///
    /// # Errors
    /// As [`Otelcol::spans`].
    pub fn metrics(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut names = Vec::new();
        for line in whole.lines() {
            let line: Value = serde_json::from_str(line).context("a line of the collector")?;
            let resources = list(&line, "resourceMetrics");
            let scopes = resources.flat_map(|r| list(r, "scopeMetrics"));
            names.extend(
                scopes
                    .flat_map(|s| list(s, "metrics"))
                    .map(|m| text_of(m, "name")),
            );
        }
        Ok(names)
    }
}

fn configuration(file: &Path, tls: &str) -> String {
    format!(
        "receivers:
  otlp:
    protocols:
      grpc: {{endpoint: '0.0.0.0:{GRPC}'{tls}}}
      http: {{endpoint: '0.0.0.0:{HTTP}'{tls}}}
exporters:
  file: {{path: {file:?}, flush_interval: 100ms}}
service:
  telemetry:
    metrics: {{level: none}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [file]}}
    metrics: {{receivers: [otlp], exporters: [file]}}
"
    )
}

fn read(span: &Value, resource: BTreeMap<String, String>) -> Span {
    let status = span.get("status");
    let number = |key: &str| text_of(span, key).parse().unwrap_or_default();
    Span {
        trace: text_of(span, "traceId"),
        id: text_of(span, "spanId"),
        parent: text_of(span, "parentSpanId"),
        name: text_of(span, "name"),
        kind: span.get("kind").and_then(Value::as_u64).unwrap_or_default(),
        start: number("startTimeUnixNano"),
        end: number("endTimeUnixNano"),
        status: status
            .and_then(|s| s.get("code")?.as_u64())
            .unwrap_or_default(),
        message: status.map_or_else(String::new, |s| text_of(s, "message")),
        attributes: attributes(span),
        links: list(span, "links")
            .map(|link| text_of(link, "traceId"))
            .collect(),
        resource,
    }
}

fn attributes(of: &Value) -> BTreeMap<String, String> {
    let pair = |attribute: &Value| {
        let value = attribute.get("value")?.as_object()?.values().next()?;
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some((text_of(attribute, "key"), value))
    };
    list(of, "attributes").filter_map(pair).collect()
}

fn list<'a>(of: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    of.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text_of(of: &Value, key: &str) -> String {
    let text = of.get(key).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}
