//! What a collector is told of connections.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// Segments that TCP has sent again in a pod's network namespace, as the kernel itself counts them.
fn retransmitted(mesh: &Mesh, pod: &str) -> Result<u64> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
    let text = mesh.pod(pod)?.netns().run(read)??;
    let mut tcp = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (tcp.next().context("names")?, tcp.next().context("values")?);
    let mut fields = names.split(' ').zip(values.split(' '));
    let (_, count) = fields
        .find(|(name, _)| *name == "RetransSegs")
        .context("RetransSegs")?;
    Ok(count.parse()?)
}

fn unix_nano() -> Result<u64> {
    Ok(SystemTime::now()
        .duration_since(UNIX_EPOCH)?
        .as_nanos()
        .try_into()?)
}

/// Twice, nothing comes back from the other node for a while.
#[test]
fn what_is_sent_again_is_told_in_bursts_with_their_times() -> Result {
    let mesh = town()?;
    let (near, far) = (collector(&mesh, "n1")?, collector(&mesh, "n2")?);
    let to = mesh.pod("far")?.socket_v4(9_000);
    let listener = mesh.pod("far")?.netns().run(|| TcpListener::bind(to))??;
    let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(1));
    let mut client = eventually(LONG, || Ok(mesh.pod("client")?.netns().run(connect)??))?;
    let (mut server, _) = listener.accept()?;
    let before = ["client", "far"].map(|pod| retransmitted(&mesh, pod));
    let back = mesh.pod("client")?.addresses().v4;
    let n2 = mesh.lab.node("n2")?;
    let mut outages = Vec::new();
    for _ in 0..2 {
        n2.netns().ip(&format!("route add blackhole {back}/32"))?;
        let start = unix_nano()?;
        let mut byte = [1];
        client.write_all(&byte)?;
        server.read_exact(&mut byte)?;
        server.write_all(&byte)?;
        std::thread::sleep(Duration::from_millis(700));
        n2.netns().ip(&format!("route del blackhole {back}/32"))?;
        client.read_exact(&mut byte)?;
        outages.push((start, unix_nano()?));
        std::thread::sleep(Duration::from_millis(1_200));
    }
    drop((client, server));
    for (collector, pod, kind, before) in [
        (&near, "client", SpanKind::Client, &before[0]),
        (&far, "far", SpanKind::Server, &before[1]),
    ] {
        let span = the(collector, kind, to)?;
        let before = before.as_ref().map_err(|e| anyhow::anyhow!("{e:#}"))?;
        let expected = retransmitted(&mesh, pod)? - before;
        assert!(expected >= 2, "{pod} sent {expected} again");
        assert_eq!(
            span.attribute("weft.tcp.retransmits"),
            expected.to_string(),
            "{pod}"
        );
        let bursts: Vec<_> = span.moments("weft.tcp.retransmitted");
        assert_eq!(bursts.len(), 2, "{bursts:?}");
        let mut told = 0;
        for (burst, (start, end)) in bursts.iter().zip(&outages) {
            let at = burst.time_unix_nano();
            assert!(
                (start..=end).contains(&&at),
                "{pod}: {at} not in {start} to {end}"
            );
            let length = burst.number("weft.tcp.burst_us") * 1_000;
            assert!(
                at + length <= *end,
                "{pod}: {length} ns of {start} to {end}"
            );
            told += burst.number("weft.tcp.retransmits");
        }
        assert_eq!(told, expected, "{pod}: {bursts:?}");
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
