//! Envoy's spans of requests, as a real collector gets them.

use std::fs;

use anyhow::{Context, ensure};
use weft_e2e::http::{Answer, curl, envoy, serve, urls, wait_status, with_envoy};
use weft_e2e::mesh::TARGET;
use weft_e2e::otelcol::{GRPC, Otelcol, Span};
use weft_e2e::samples::scrape;
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::{Lab, Process, WeftOptions, addr};

use super::{pods, route, with_pods};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const QUIET: &str = "3c191d03fa8be0653c191d03fa8be065";
const ASKER: &str = "00f067aa0ba902b7";
/// Of a span's `kind`.
const CLIENT: u64 = 3;
const SERVER: u64 = 2;

/// Has the agent export over gRPC to its own node.
fn exporting() -> WeftOptions {
    let to = format!("http://127.0.0.1:{GRPC}");
    with_envoy().arg("--otlp").arg(to)
}

/// Only GET.
const READERS: &str = "apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: readers, namespace: default}
spec:
  selector: {matchLabels: {app: near}}
  rules: [{to: [{operation: {methods: [GET]}}]}]
";

/// A node with a server in pod `near`.
fn start(options: &WeftOptions) -> Result<(Mesh, Process)> {
    let mesh = Mesh::start_with(pods(), options)?;
    let server = serve(&mesh.lab, "near", TARGET)?;
    Ok((mesh, server))
}

/// As [`start`], with a collector on the node.
fn start_traced() -> Result<(Mesh, Process, Otelcol)> {
    let (mesh, server) = start(&exporting())?;
    let collector = Otelcol::start(&mesh.lab, &mesh.lab.node("n1")?)?;
    Ok((mesh, server, collector))
}

fn parent(trace: &str, flags: &str) -> String {
    format!("traceparent: 00-{trace}-{ASKER}-{flags}")
}

/// The trace and the parent that the server was told.
fn told(answer: &Answer) -> Result<(String, String, String)> {
    let seen = answer.seen()?;
    let header = seen["headers"]["traceparent"].as_str();
    let header = header.with_context(|| format!("no traceparent: {seen}"))?;
    let parts: Vec<&str> = header.split('-').collect();
    let ["00", trace, span, flags] = parts[..] else {
        anyhow::bail!("no traceparent of version 0: {header}");
    };
    Ok((trace.to_owned(), span.to_owned(), flags.to_owned()))
}

/// The only span in `trace`, once there is one.
fn only(collector: &Otelcol, trace: &str) -> Result<Span> {
    eventually(LONG, || {
        let mut spans = collector.spans()?;
        spans.retain(|span| span.trace == trace);
        ensure!(spans.len() == 1, "one span is expected: {spans:?}");
        spans.pop().context("none")
    })
}

/// The connections that a request links to have spans of their own, once they have ended: the client's has.
fn is_of_connection(collector: &Otelcol, span: &Span, client: &str) -> Result {
    eventually(LONG, || {
        let all = collector.spans()?;
        let mut linked = all.iter().filter(|s| span.links.contains(&s.trace));
        let first = linked.next().context("no connection's span yet")?;
        ensure!(first.attribute("weft.path") == "envoy", "{first:?}");
        ensure!(first.attribute("source.address") == client, "{first:?}");
        Ok(())
    })
}

#[test]
fn a_request_stays_in_its_trace_and_links_to_the_connections_that_carry_it() -> Result {
    let (mesh, _server, collector) = start_traced()?;
    route(&mesh)?;
    let client = mesh.pod("client")?;
    let url = &urls(1, "/traced?secret=1")[0];
    wait_status(&client, url, 200)?;
    let header = parent(TRACE, "01");
    let state = ["-H", &header, "-H", "tracestate: vendor=1"];
    let answer = curl(&client, url, &state)?;
    ensure!(answer.status == 200, "{answer:?}");

    let span = only(&collector, TRACE)?;
    ensure!(span.parent == ASKER, "{span:?}");
    ensure!((span.name.as_str(), span.kind) == ("GET", CLIENT));
    ensure!(span.status == 0 && span.end > span.start, "{span:?}");
    // The server is told of Envoy's span, in the same trace.
    let wanted = (TRACE.to_owned(), span.id.clone(), "01".to_owned());
    ensure!(told(&answer)? == wanted, "{answer:?}: {span:?}");
    let headers = &answer.seen()?["headers"];
    ensure!(headers["tracestate"] == "vendor=1", "{headers}");
    ensure!(headers["x-request-id"].is_null(), "{headers}");
    for (key, value) in [
        ("weft.source.pod", "client"),
        ("weft.destination.pod", "near"),
        ("weft.service", "default/near"),
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("url.path", "/traced"),
        ("destination.port", &TARGET.to_string()),
    ] {
        ensure!(span.attribute(key) == value, "{key}: {span:?}");
    }
    ensure!(!format!("{span:?}").contains("secret"), "{span:?}");
    ensure!(span.resource("k8s.pod.name") == "client", "{span:?}");
    ensure!(span.links.len() == 2, "{span:?}");
    is_of_connection(&collector, &span, &client.addresses().v4.to_string())
}

#[test]
fn a_request_without_a_trace_begins_one_whatever_it_is_made_of() -> Result {
    let (mesh, _server, collector) = start_traced()?;
    route(&mesh)?;
    let client = mesh.pod("client")?;
    let url = &urls(1, "/plain")[1];
    wait_status(&client, url, 200)?;
    let answer = curl(&client, url, &[])?;
    let (trace, id, flags) = told(&answer)?;
    ensure!(flags == "01", "{answer:?}");
    let span = only(&collector, &trace)?;
    ensure!((&span.id, span.parent.as_str()) == (&id, ""), "{span:?}");
    ensure!(span.links.len() == 2, "{span:?}");
    is_of_connection(&collector, &span, &client.addresses().v6.to_string())?;
    // Bytes that are no text, which OTLP cannot say.
    let odd = mesh.lab.dir().join("odd");
    fs::write(&odd, b"User-Agent: \xff\xfe\xe2\x82 x\n")?;
    let answer = curl(&client, url, &["-H", &format!("@{}", odd.display())])?;
    ensure!(answer.status == 200, "{answer:?}");
    let span = only(&collector, &told(&answer)?.0)?;
    ensure!(
        !span.attribute("user_agent.original").is_empty(),
        "{span:?}"
    );
    let samples = scrape(&mesh.lab.node("n1")?)?;
    ensure!(samples.sum("weft_otlp_requests_total", &[]) > 1);
    Ok(())
}

#[test]
fn a_refused_request_is_told_by_the_envoy_of_the_destination() -> Result {
    let (mesh, _server, collector) = start_traced()?;
    mesh.apply("policy", READERS)?;
    let client = mesh.pod("client")?;
    let url = format!("http://{}/x", mesh.pod("near")?.socket_v4(TARGET));
    eventually(LONG, || {
        let answer = curl(&client, &url, &["-d", "x"])?;
        ensure!(answer.status == 403, "{answer:?}");
        Ok(())
    })?;
    // Over one connection, so that one worker of Envoy tells of both in order: one that nobody wants traced, and one that is.
    let (quiet, loud) = (parent(QUIET, "00"), parent(TRACE, "01"));
    let both = client.command("curl").args(["-sS", "-H", &quiet, &url]);
    let both = both.args(["--next", "-sS", "-d", "x", "-H", &loud, &url]);
    let answers = both.run(LONG)?.success()?.stdout;
    ensure!(answers.contains(&format!("00-{QUIET}-")), "{answers}");
    ensure!(answers.contains("RBAC: access denied"), "{answers}");

    let span = only(&collector, TRACE)?;
    ensure!(
        span.attribute("http.response.status_code") == "403",
        "{span:?}"
    );
    ensure!(span.kind == SERVER && span.parent == ASKER, "{span:?}");
    ensure!(span.resource("k8s.pod.name") == "near", "{span:?}");
    ensure!(span.links.len() == 1, "it went no further: {span:?}");
    let all = collector.spans()?;
    ensure!(all.iter().all(|span| span.trace != QUIET), "{all:?}");
    Ok(())
}

#[test]
fn the_envoys_of_two_nodes_tell_of_a_request_in_one_trace() -> Result {
    let to = format!("http://{}:{GRPC}", addr::node(1).v4);
    let options = with_envoy().arg("--otlp").arg(to);
    let nodes = Lab::builder().node("n1").node("n2");
    let mesh = Mesh::start_with(with_pods(nodes, "n2"), &options)?;
    let collector = Otelcol::start(&mesh.lab, &mesh.lab.node("n1")?)?;
    let _server = serve(&mesh.lab, "near", TARGET)?;
    route(&mesh)?;
    mesh.apply("policy", READERS)?;
    let client = mesh.pod("client")?;
    let url = &urls(1, "/far")[0];
    eventually(LONG, || {
        let answer = curl(&client, url, &["-d", "x"])?;
        ensure!(answer.status == 403, "{answer:?}");
        Ok(())
    })?;
    wait_status(&client, url, 200)?;
    let answer = curl(&client, url, &["-H", &parent(TRACE, "01")])?;
    let (trace, last, _) = told(&answer)?;
    ensure!(trace == TRACE, "{answer:?}");
    let (first, second) = eventually(LONG, || {
        let spans = collector.spans()?.into_iter().filter(|s| s.trace == TRACE);
        let (servers, clients): (Vec<_>, Vec<_>) = spans.partition(|s| s.kind == SERVER);
        let ([second], [first]) = (&servers[..], &clients[..]) else {
            anyhow::bail!("one of each is expected: {servers:?} {clients:?}");
        };
        Ok((first.clone(), second.clone()))
    })?;
    ensure!((first.parent.as_str(), &second.parent) == (ASKER, &first.id));
    ensure!(second.id == last, "{second:?}: {last}");
    let pods = [&first, &second].map(|span| span.resource("k8s.pod.name"));
    ensure!(pods == ["client", "near"], "{pods:?}");
    // What lies between the nodes is told of by the client's alone.
    ensure!(first.links.len() == 2, "{first:?}");
    ensure!(!second.links.is_empty(), "{second:?}");
    Ok(())
}

#[test]
fn requests_do_not_notice_that_there_is_no_collector() -> Result {
    let (mesh, _server) = start(&exporting())?;
    route(&mesh)?;
    let client = mesh.pod("client")?;
    let url = &urls(1, "/x")[0];
    wait_status(&client, url, 200)?;
    for _ in 0..20 {
        let answer = curl(&client, url, &[])?;
        ensure!(answer.status == 200, "{answer:?}");
        told(&answer)?;
    }
    let node = mesh.lab.node("n1")?;
    eventually(LONG, || {
        let samples = scrape(&node)?;
        let came = samples.sum("weft_otlp_requests_total", &[]);
        ensure!(came >= 20, "{came} spans have come");
        let lost = samples.sum("weft_otlp_spans_total", &[("outcome", "failed")]);
        ensure!(lost > 0, "nothing is counted as lost");
        Ok(())
    })
}

#[test]
fn who_exports_nothing_finds_requests_as_they_were_sent() -> Result {
    let options = WeftOptions::default().arg("--envoy").arg(envoy());
    let (mesh, _server) = start(&options)?;
    route(&mesh)?;
    let client = mesh.pod("client")?;
    let url = &urls(1, "/x")[0];
    let seen = wait_status(&client, url, 200)?.seen()?;
    ensure!(seen["headers"]["traceparent"].is_null(), "{seen}");
    let header = parent(TRACE, "01");
    let answer = curl(&client, url, &["-H", &header])?;
    let wanted = (TRACE.to_owned(), ASKER.to_owned(), "01".to_owned());
    ensure!(told(&answer)? == wanted, "{answer:?}");
    Ok(())
}
