//! What a collector is told of connections.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use weft_e2e::collector::{Collector, Received};
use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::samples::scrape;
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{GetOptions, Lab, PodSpec, WeftOptions};

const COLLECTOR: &str = "127.0.0.1:4317";

const POLICY: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: shop}
spec:
  podSelector: {matchLabels: {app: closed}}
  policyTypes: [Ingress]
";

/// A client and three servers: one beside it, two on another node.
fn town() -> Result<Mesh> {
    let pod = |name: &str, node: &str| {
        PodSpec::new(name, node)
            .namespace("shop")
            .service_account(name)
            .label("app", name)
    };
    let builder = Lab::builder()
        .node("n1")
        .node("n2")
        .pod(pod("client", "n1"))
        .pod(pod("near", "n1"))
        .pod(pod("far", "n2"))
        .pod(pod("closed", "n2"));
    let options = WeftOptions::default()
        .arg("--otlp")
        .arg(format!("http://{COLLECTOR}"));
    let mut mesh = Mesh::start_with(builder, &options)?;
    mesh.serve(&["near", "far", "closed"])?;
    Ok(mesh)
}

fn collector(mesh: &Mesh, node: &str) -> Result<Collector> {
    Collector::start(mesh.lab.node(node)?.netns(), COLLECTOR.parse()?)
}

fn at(mesh: &Mesh, pod: &str) -> Result<SocketAddr> {
    Ok(mesh.pod(pod)?.socket_v4(TARGET))
}

/// Asks once, over a connection of its own.
fn ask(mesh: &Mesh, pod: &str) -> Result {
    let options = GetOptions::tcp(1).timeout(Duration::from_millis(700));
    let attempts = mesh.pod("client")?.get(at(mesh, pod)?, &options)?;
    let attempt = attempts.first().context("no attempt")?;
    ensure!(attempt.ok(), "{attempt:?}");
    Ok(())
}

/// The one span of this kind about this destination.
fn the(collector: &Collector, kind: SpanKind, to: SocketAddr) -> Result<Received> {
    let wanted = |received: &Received| {
        received.span.kind() == kind
            && received.attribute("destination.address") == to.ip().to_string()
            && received.attribute("destination.port") == to.port().to_string()
    };
    eventually(LONG, || {
        let found: Vec<_> = collector.spans().into_iter().filter(wanted).collect();
        ensure!(found.len() == 1, "{} spans", found.len());
        found.into_iter().next().context("none")
    })
}

#[test]
fn both_ends_of_a_connection_are_in_one_trace() -> Result {
    let mesh = town()?;
    let (near, far) = (collector(&mesh, "n1")?, collector(&mesh, "n2")?);
    for (pod, server_side) in [("far", &far), ("near", &near)] {
        ask(&mesh, pod)?;
        let to = at(&mesh, pod)?;
        let client = the(&near, SpanKind::Client, to)?;
        let server = the(server_side, SpanKind::Server, to)?;
        let (c, s) = (&client.span, &server.span);
        assert_eq!((c.trace_id.len(), c.span_id.len()), (16, 8));
        assert_eq!(c.trace_id, s.trace_id, "{pod}");
        assert_eq!(s.parent_span_id, c.span_id, "{pod}");
        assert!(c.parent_span_id.is_empty() && c.span_id != s.span_id);
        for received in [&client, &server] {
            let span = &received.span;
            assert_eq!(span.name, format!("tcp shop/{pod}"));
            assert!(span.start_time_unix_nano < span.end_time_unix_nano);
            assert_eq!(span.status.as_ref().map_or(0, |s| s.code), 0, "{span:?}");
            for (key, value) in [
                ("network.transport", "tcp"),
                ("network.type", "ipv4"),
                ("weft.source.pod", "client"),
                ("weft.source.service_account", "client"),
                ("weft.destination.pod", pod),
                ("weft.destination.namespace", "shop"),
                ("weft.verdict", "allowed"),
            ] {
                assert_eq!(received.attribute(key), value, "{key} of {span:?}");
            }
        }
        // What one end has sent the other has received, as the nodes counted it.
        for key in ["weft.bytes.sent", "weft.bytes.received"] {
            assert_eq!(client.attribute(key), server.attribute(key), "{pod}: {key}");
            assert_ne!(client.attribute(key), "0");
        }
        assert_eq!(client.resource("service.name"), "client");
        assert_eq!(client.resource("k8s.node.name"), "n1");
        assert_eq!(server.resource("service.name"), pod);
        assert_eq!(server.resource("service.namespace"), "shop");
        assert_eq!(server.resource("k8s.pod.name"), pod);
    }
    Ok(())
}

#[test]
fn a_refusal_is_an_error_that_says_why() -> Result {
    let mut mesh = town()?;
    let far = collector(&mesh, "n2")?;
    mesh.apply("closed", POLICY)?;
    let to = at(&mesh, "closed")?;
    let refused = eventually(LONG, || {
        // The policy may come in the middle of one, which is then ended instead of refused.
        ensure!(ask(&mesh, "closed").is_err(), "it is let in");
        let spans = far.spans().into_iter();
        let mut refused = spans.filter(|r| r.attribute("weft.verdict") == "denied");
        refused.next().context("no span of a refusal")
    })?;
    let status = refused.span.status.clone().context("no status")?;
    assert_eq!(status.code, i32::from(StatusCode::Error));
    let why = "NetworkPolicy shop/closed selects shop/closed and none of its rules lets TCP 8080 from shop/client in";
    assert!(status.message.contains(why), "{}", status.message);
    for (key, value) in [
        ("error.type", "isolated"),
        ("weft.policy", "NetworkPolicy shop/closed"),
        ("destination.address", &to.ip().to_string()),
    ] {
        assert_eq!(refused.attribute(key), value, "{key}");
    }
    mesh.weft("n2")?.wait_ready(LONG)?;
    Ok(())
}

#[test]
fn a_collector_that_comes_late_is_told_what_waited_for_it() -> Result {
    let mut mesh = town()?;
    for _ in 0..20 {
        ask(&mesh, "near")?;
    }
    let near = collector(&mesh, "n1")?;
    let to = at(&mesh, "near")?.ip().to_string();
    eventually(LONG, || {
        let spans = near.spans().into_iter();
        let told = spans.filter(|r| r.attribute("destination.address") == to);
        let count = told.count();
        ensure!(count == 40, "{count} of 20 connections with two ends each");
        Ok(())
    })?;
    drop(near);
    // And one that goes away holds nobody up.
    ask(&mesh, "near")?;
    mesh.weft("n1")?.wait_ready(LONG)?;
    Ok(())
}

/// Connections of which about half is traced.
const CHOSEN_FROM: u32 = 60;

fn traces(collector: &Collector, kind: SpanKind, source: &str) -> BTreeSet<Vec<u8>> {
    let spans = collector.spans().into_iter();
    let of = spans.filter(|r| r.span.kind() == kind && r.attribute("weft.source.pod") == source);
    of.map(|received| received.span.trace_id).collect()
}

#[test]
fn both_ends_choose_alike_by_service() -> Result {
    let pod = |name: &str, node: &str| {
        PodSpec::new(name, node)
            .namespace("shop")
            .label("app", name)
    };
    let builder = Lab::builder()
        .node("n1")
        .node("n2")
        .pod(pod("client", "n1"))
        .pod(pod("early", "n1"))
        .pod(pod("near", "n1"))
        .pod(pod("far", "n2"));
    let mut options = WeftOptions::default();
    for arg in ["--otlp", "http://127.0.0.1:4317", "--otlp-sampling", "0"] {
        options = options.arg(arg);
    }
    let options = options.arg("--otlp-service-sampling").arg("shop/far=0.5");
    let mut mesh = Mesh::start_with(builder, &options)?;
    mesh.serve(&["near", "far"])?;
    let (here, there) = (collector(&mesh, "n1")?, collector(&mesh, "n2")?);
    let service = ServiceManifest::new("far")
        .namespace("shop")
        .cluster_ips(vip_addresses(1))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "far");
    mesh.service(&service, 1)?;
    let (vip, own) = (vips(1)[0], at(&mesh, "far")?);
    // Somebody else finds out when both agents know where the service is.
    let early = mesh.pod("early")?;
    eventually(LONG, || {
        early.get(vip, &GetOptions::tcp(4))?;
        ensure!(!traces(&here, SpanKind::Client, "early").is_empty());
        ensure!(!traces(&there, SpanKind::Server, "early").is_empty());
        Ok(())
    })?;

    // By the service's address and by its pod's, and to somebody who is of no service.
    let client = mesh.pod("client")?;
    for (to, times) in [
        (vip, CHOSEN_FROM),
        (own, CHOSEN_FROM),
        (at(&mesh, "near")?, 20),
    ] {
        let attempts = client.get(to, &GetOptions::tcp(times))?;
        ensure!(attempts.iter().all(|a| a.ok()), "{attempts:?}");
    }
    // A span for each connection and end has been judged: those to `near` have both ends on n1.
    for (node, spans) in [("n1", 2 * CHOSEN_FROM + 40), ("n2", 2 * CHOSEN_FROM)] {
        let node = mesh.lab.node(node)?;
        eventually(LONG, || {
            let samples = scrape(&node)?;
            let all = samples.sum("weft_otlp_spans_total", &[]);
            let told = traces(&here, SpanKind::Client, "client").len()
                + traces(&there, SpanKind::Server, "client").len();
            ensure!(all >= spans.into() && told > 0, "{all} of {spans} spans");
            Ok(())
        })?;
    }
    let ends = eventually(LONG, || {
        let clients = traces(&here, SpanKind::Client, "client");
        let servers = traces(&there, SpanKind::Server, "client");
        ensure!(
            clients == servers,
            "{} at one end, {} at the other",
            clients.len(),
            servers.len()
        );
        Ok(clients.len())
    })?;
    // Half of 120; chance leaves these bounds once in a billion times.
    ensure!((27..=93).contains(&ends), "{ends} of {}", 2 * CHOSEN_FROM);
    let spans = here.spans().into_iter().chain(there.spans());
    for received in spans {
        ensure!(received.span.trace_state == "ot=th:8", "{received:?}");
        ensure!(received.attribute("destination.address") == own.ip().to_string());
    }
    Ok(())
}
