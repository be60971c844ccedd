//! Envoy's spans of requests, as a real collector gets them.

use std::path::Path;

use anyhow::{Context, ensure};
use weft_e2e::http::{curl, envoy, urls, wait_status};
use weft_e2e::mesh::TARGET;
use weft_e2e::otelcol::{GRPC, Otelcol, Span};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::{Process, WeftOptions};

use super::{pods, route};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const ASKER: &str = "00f067aa0ba902b7";

/// A node whose agent exports to a collector.
fn start() -> Result<(Mesh, Otelcol, Process)> {
    let options = WeftOptions::default()
        .arg("--envoy")
        .arg(envoy())
        .arg("--otlp")
        .arg(format!("http://127.0.0.1:{GRPC}"));
    let mesh = Mesh::start_with(pods(), &options)?;
    let collector = Otelcol::start(&mesh.lab, &mesh.lab.node("n1")?)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/http_server.py");
    let server = mesh.pod("near")?.command("/usr/bin/python3").arg(script);
    let mut server = server.arg("near").arg(TARGET.to_string()).spawn()?;
    server.wait_for_line("ready", LONG)?;
    Ok((mesh, collector, server))
}

/// Spans of requests in [`TRACE`], as soon as there is one.
fn requests(collector: &Otelcol) -> Result<Vec<Span>> {
    eventually(LONG, || {
        let mut spans = collector.spans()?;
        spans.retain(|span| span.trace == TRACE);
        ensure!(!spans.is_empty(), "no span of the request yet");
        Ok(spans)
    })
}

#[test]
fn a_request_stays_in_its_trace_and_links_to_the_connections_that_carry_it() -> Result {
    let (mesh, collector, _server) = start()?;
    route(&mesh)?;
    let client = mesh.pod("client")?;
    let url = &urls(1, "/traced")[0];
    wait_status(&client, url, 200)?;
    let parent = format!("traceparent: 00-{TRACE}-{ASKER}-01");
    let answer = curl(&client, url, &["-H", &parent, "-H", "tracestate: vendor=1"])?;
    ensure!(answer.status == 200, "{answer:?}");

    let spans = requests(&collector)?;
    let [span] = spans.as_slice() else {
        anyhow::bail!("one span is expected: {spans:?}");
    };
    ensure!(span.parent == ASKER, "{span:?}");
    // The server is told of Envoy's span, in the same trace.
    let seen = answer.seen()?;
    let told = seen["headers"]["traceparent"].as_str().unwrap_or_default();
    ensure!(
        told == format!("00-{TRACE}-{}-01", span.id),
        "{told}: {span:?}"
    );
    ensure!(seen["headers"]["tracestate"] == "vendor=1", "{seen}");
    for (key, value) in [
        ("weft.source.pod", "client"),
        ("weft.destination.pod", "near"),
        ("http.status_code", "200"),
    ] {
        ensure!(span.attribute(key) == value, "{key}: {span:?}");
    }
    ensure!(span.resource("k8s.pod.name") == "client", "{span:?}");
    // Both connections have spans of their own, once they have ended: the client's has.
    ensure!(span.links.len() == 2, "{span:?}");
    eventually(LONG, || {
        let all = collector.spans()?;
        let of = |trace: &String| {
            all.iter()
                .find(|s| s.trace == *trace && s.name != span.name)
        };
        let linked: Vec<&Span> = span.links.iter().filter_map(of).collect();
        let first = linked.first().context("no connection's span yet")?;
        ensure!(first.attribute("weft.path") == "envoy", "{first:?}");
        ensure!(first.attribute("source.address") == client.addresses().v4.to_string());
        Ok(())
    })
}

#[test]
fn a_refused_request_is_told_by_the_envoy_of_the_destination() -> Result {
    let (mesh, collector, _server) = start()?;
    mesh.apply(
        "policy",
        "apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: readers, namespace: default}
spec:
  selector: {matchLabels: {app: near}}
  rules: [{to: [{operation: {methods: [GET]}}]}]
",
    )?;
    let client = mesh.pod("client")?;
    let url = format!("http://{}/x", mesh.pod("near")?.socket_v4(TARGET));
    eventually(LONG, || {
        let answer = curl(&client, &url, &["-d", "x"])?;
        ensure!(answer.status == 403, "{answer:?}");
        Ok(())
    })?;
    let parent = format!("traceparent: 00-{TRACE}-{ASKER}-01");
    let answer = curl(&client, &url, &["-d", "x", "-H", &parent])?;
    ensure!(answer.status == 403, "{answer:?}");
    let spans = requests(&collector)?;
    let span = spans.first().context("none")?;
    ensure!(span.attribute("http.status_code") == "403", "{span:?}");
    ensure!(span.resource("k8s.pod.name") == "near", "{span:?}");
    ensure!(span.links.len() == 1, "it went no further: {span:?}");
    // Not asked for, not traced.
    let quiet = format!("traceparent: 00-{TRACE}-{ASKER}-00");
    let before = requests(&collector)?.len();
    curl(&client, &url, &["-d", "x", "-H", &quiet])?;
    std::thread::sleep(std::time::Duration::from_secs(7));
    ensure!(requests(&collector)?.len() == before, "traced all the same");
    Ok(())
}
