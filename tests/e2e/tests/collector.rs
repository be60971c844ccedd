//! Two nodes tell a real OpenTelemetry Collector of what a known workload did: one over gRPC, one over HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use weft_e2e::mesh::TARGET;
use weft_e2e::otelcol::{self, Otelcol, Span};
use weft_e2e::samples::scrape;
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::{GetOptions, Lab, PodSpec, Process, WeftOptions, addr};

/// Connections to each server.
const TIMES: usize = 40;
/// Connects that are refused.
const REFUSED: usize = 5;
/// Headers of an IPv4 packet of TCP with timestamps, and what a SYN has beyond that.
const HEADERS: u64 = 52;
const MORE_IN_SYN: u64 = 8;
/// Kinds of spans.
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
const ERROR: u64 = 2;

const POLICY: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: shop}
spec:
  podSelector: {matchLabels: {app: closed}}
  policyTypes: [Ingress]
";

/// A connection, as the application that opened it has it.
#[derive(Debug, Deserialize)]
struct Counted {
    port: u16,
    sent: u64,
    received: u64,
}

/// The collector is on n1: that node's agent sends over gRPC, the other one's over HTTP.
fn town() -> Result<(Mesh, Otelcol)> {
    let pod = |name: &str, node: &str| {
        PodSpec::new(name, node)
            .namespace("shop")
            .service_account(format!("{name}-account"))
            .label("app", name)
    };
    let builder = Lab::builder()
        .node("n1")
        .node("n2")
        .pod(pod("client", "n1"))
        .pod(pod("stranger", "n1"))
        .pod(pod("near", "n1"))
        .pod(pod("far", "n2"))
        .pod(pod("closed", "n2"));
    let collector = addr::node(1).v4;
    let mesh = Mesh::start_each(builder, |node| {
        let url = match node.name() {
            "n1" => format!("http://{collector}:{}", otelcol::GRPC),
            _ => format!("http://{collector}:{}/v1/traces", otelcol::HTTP),
        };
        let options = WeftOptions::default().arg("--otlp").arg(url);
        options.arg("--otlp-metrics-interval").arg("1s")
    })?;
    let otelcol = Otelcol::start(&mesh.lab, &mesh.lab.node("n1")?)?;
    Ok((mesh, otelcol))
}

fn application() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/counted.py")
}

fn serve(mesh: &Mesh, pod: &str) -> Result<Process> {
    let command = mesh.pod(pod)?.command("/usr/bin/python3");
    let command = command.arg(application()).arg("serve");
    let mut process = command.arg(TARGET.to_string()).spawn()?;
    process.wait_for_line("ready", LONG)?;
    Ok(process)
}

fn ask(mesh: &Mesh, pod: &str) -> Result<Vec<Counted>> {
    let IpAddr::V4(address) = mesh.pod(pod)?.socket_v4(TARGET).ip() else {
        anyhow::bail!("not IPv4");
    };
    let command = mesh.pod("client")?.command("/usr/bin/python3");
    let command = command.arg(application()).arg("ask");
    let command = command.args([address.to_string(), TARGET.to_string(), TIMES.to_string()]);
    let output = command.run(LONG)?.success()?;
    let lines = output.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).context("a line of the application"))
        .collect()
}

/// The spans about connections to `to`, by the client's port; those of the client's end and those of the server's.
fn by_port(spans: &[Span], to: &str, kind: u64) -> BTreeMap<u16, Vec<Span>> {
    let mut found: BTreeMap<u16, Vec<Span>> = BTreeMap::new();
    for span in spans.iter().filter(|s| s.kind == kind && s.status != ERROR) {
        if span.attribute("destination.address") == to {
            let port = span.attribute("source.port").parse().unwrap_or_default();
            found.entry(port).or_default().push(span.clone());
        }
    }
    found
}

/// What an end has sent without headers, as it was counted on the way.
fn payload(span: &Span, which: &str) -> Result<u64> {
    let bytes = span.number(&format!("weft.bytes.{which}"))?;
    let packets = span.number(&format!("weft.packets.{which}"))?;
    let headers = packets * HEADERS + MORE_IN_SYN;
    bytes
        .checked_sub(headers)
        .with_context(|| format!("{bytes} bytes in {packets} packets: {span:?}"))
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// One connection's two ends: in one trace, right in bytes and names.
fn is_told(pod: &str, counted: &Counted, client: &Span, server: &Span) -> Result {
    ensure!(
        client.trace == server.trace,
        "two traces: {client:?} {server:?}"
    );
    ensure!(server.parent == client.id && client.parent.is_empty());
    for span in [client, server] {
        ensure!(
            payload(span, "sent")? == counted.sent,
            "{counted:?}: {span:?}"
        );
        ensure!(
            payload(span, "received")? == counted.received,
            "{counted:?}: {span:?}"
        );
        let account = format!("{pod}-account");
        for (key, value) in [
            ("weft.source.namespace", "shop"),
            ("weft.source.pod", "client"),
            ("weft.source.service_account", "client-account"),
            ("weft.source.node", "n1"),
            ("weft.destination.pod", pod),
            ("weft.destination.service_account", &account),
            ("weft.verdict", "allowed"),
            ("network.transport", "tcp"),
        ] {
            let found = span.attribute(key);
            ensure!(found == value, "{key} is {found:?} in {span:?}");
        }
    }
    ensure!(client.resource("service.name") == "client");
    ensure!(server.resource("service.name") == pod);
    Ok(())
}

fn is_well_formed(spans: &[Span]) -> Result {
    let mut ids = BTreeSet::new();
    for span in spans {
        ensure!(is_hex(&span.trace, 32) && is_hex(&span.id, 16), "{span:?}");
        ensure!(span.start <= span.end, "{span:?}");
        ensure!(ids.insert((&span.trace, &span.id)), "told twice: {span:?}");
    }
    for span in spans.iter().filter(|s| !s.parent.is_empty()) {
        // A refusal's parent is the connect that it refused, which goes on trying.
        let has_parent = ids.contains(&(&span.trace, &span.parent));
        ensure!(has_parent || span.status == ERROR, "no parent: {span:?}");
        ensure!(span.kind == SERVER, "{span:?}");
    }
    Ok(())
}

#[test]
fn every_connection_of_a_known_workload_is_told_once_and_right() -> Result {
    let (mesh, otelcol) = town()?;
    let mut servers = Vec::new();
    for pod in ["near", "far"] {
        servers.push(serve(&mesh, pod)?);
        let counted = ask(&mesh, pod)?;
        ensure!(counted.len() == TIMES);
        let to = mesh.pod(pod)?.socket_v4(TARGET).ip().to_string();
        let spans = eventually(LONG, || {
            let spans = otelcol.spans()?;
            for kind in [CLIENT, SERVER] {
                let found = by_port(&spans, &to, kind).len();
                ensure!(found >= TIMES, "{found} of {TIMES} connections, {kind}");
            }
            Ok(spans)
        })?;
        let (clients, servers) = (by_port(&spans, &to, CLIENT), by_port(&spans, &to, SERVER));
        ensure!(clients.len() == TIMES && servers.len() == TIMES, "more");
        for counted in &counted {
            let of = |ends: &BTreeMap<u16, Vec<Span>>| match ends.get(&counted.port) {
                Some(told) if told.len() == 1 => Ok(told[0].clone()),
                other => anyhow::bail!("{counted:?} was told as {other:?}"),
            };
            is_told(pod, counted, &of(&clients)?, &of(&servers)?)?;
        }
    }
    is_well_formed(&otelcol.spans()?)?;
    let names = eventually(LONG, || {
        let names = otelcol.metrics()?;
        ensure!(names.iter().any(|n| n == "weft.connections_opened"));
        Ok(names)
    })?;
    ensure!(names.iter().any(|n| n == "weft.connection_rtt"), "no RTT");
    Ok(())
}

#[test]
fn every_refusal_is_told_once_with_its_reason() -> Result {
    let (mut mesh, otelcol) = town()?;
    mesh.serve(&["closed"])?;
    mesh.apply("closed", POLICY)?;
    let to = mesh.pod("closed")?.socket_v4(TARGET);
    let once = GetOptions::tcp(1).timeout(Duration::from_millis(600));
    let refused_to = |pod: &str| -> Result<Vec<Span>> {
        let spans = otelcol.spans()?.into_iter();
        let refused = |s: &Span| {
            s.attribute("weft.verdict") == "denied" && s.attribute("weft.source.pod") == pod
        };
        Ok(spans.filter(refused).collect())
    };
    let client = mesh.pod("client")?;
    eventually(LONG, || {
        client.get(to, &once)?;
        ensure!(!refused_to("client")?.is_empty(), "no refusal");
        Ok(())
    })?;
    // The policy is there: from now on everybody is refused.
    let stranger = mesh.pod("stranger")?;
    for _ in 0..REFUSED {
        let attempts = stranger.get(to, &once)?;
        ensure!(attempts.iter().all(|a| !a.ok()), "{attempts:?}");
    }
    // On a busy machine TCP may send its SYN again before the client gives up: that is refused as well, in the same trace.
    let traces = |told: &[Span]| {
        let traces = told.iter().map(|span| span.trace.clone());
        traces.collect::<BTreeSet<_>>().len()
    };
    let told = eventually(LONG, || {
        let told = refused_to("stranger")?;
        ensure!(traces(&told) >= REFUSED, "{} refusals", told.len());
        Ok(told)
    })?;
    ensure!(traces(&told) == REFUSED, "more than there were: {told:?}");
    let why = "NetworkPolicy shop/closed selects shop/closed and none of its rules lets TCP 8080 from shop/stranger in";
    for span in &told {
        ensure!(
            span.status == ERROR && span.message.contains(why),
            "{span:?}"
        );
        for (key, value) in [
            ("error.type", "isolated"),
            ("weft.policy", "NetworkPolicy shop/closed"),
            ("weft.source.pod", "stranger"),
            ("weft.destination.pod", "closed"),
        ] {
            ensure!(span.attribute(key) == value, "{key} of {span:?}");
        }
    }
    is_well_formed(&otelcol.spans()?)
}

/// A certificate of its own for an address, and its key, as PEM files.
fn certificate(folder: &Path, name: &str, address: IpAddr) -> Result<(PathBuf, PathBuf)> {
    let mut params = rcgen::CertificateParams::default();
    params.subject_alt_names = vec![rcgen::SanType::IpAddress(address)];
    let key = rcgen::KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let files = ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")));
    fs::write(&files[0], certificate.pem())?;
    fs::write(&files[1], key.serialize_pem())?;
    let [certificate, key] = files;
    Ok((certificate, key))
}

#[test]
fn over_tls_only_a_collector_that_proves_itself_is_told() -> Result {
    let pod = |name: &str, node: &str| PodSpec::new(name, node).label("app", name);
    let builder = ["n1", "n2", "n3"].into_iter();
    let builder = builder.fold(Lab::builder(), |builder, node| {
        let ends = [("client", node), ("server", node)];
        ends.iter()
            .fold(builder.node(node), |builder, (end, node)| {
                builder.pod(pod(&format!("{end}-{node}"), node))
            })
    });
    let address = addr::node(1).v4;
    let folder = tempfile::tempdir()?;
    let (known, key) = certificate(folder.path(), "collector", address.into())?;
    let (another, _) = certificate(folder.path(), "another", address.into())?;
    // Two trust its certificate; the third one trusts another.
    let mut mesh = Mesh::start_each(builder, |node| {
        let (url, trusted) = match node.name() {
            "n1" => (format!("https://{address}:{}", otelcol::GRPC), &known),
            "n2" => (
                format!("https://{address}:{}/v1/traces", otelcol::HTTP),
                &known,
            ),
            _ => (format!("https://{address}:{}", otelcol::GRPC), &another),
        };
        let options = WeftOptions::default().env("SSL_CERT_FILE", trusted);
        let options = options.arg("--otlp").arg(url);
        options.arg("--otlp-metrics-interval").arg("500ms")
    })?;
    let otelcol = Otelcol::start_tls(&mesh.lab, &mesh.lab.node("n1")?, &known, &key)?;
    mesh.serve(&["server-n1", "server-n2", "server-n3"])?;
    let ask = |node: &str| -> Result {
        let to = mesh.pod(&format!("server-{node}"))?.socket_v4(TARGET);
        let client = mesh.pod(&format!("client-{node}"))?;
        let attempts = client.get(to, &GetOptions::tcp(3))?;
        ensure!(attempts.iter().all(|a| a.ok()), "{attempts:?}");
        Ok(())
    };
    for node in ["n1", "n2", "n3"] {
        ask(node)?;
    }
    eventually(LONG, || {
        let spans = otelcol.spans()?;
        let told = |node: &str| {
            let of = |s: &&Span| s.attribute("weft.source.node") == node;
            spans.iter().filter(of).count()
        };
        ensure!([told("n1"), told("n2")] == [6, 6], "{spans:?}");
        let failed = scrape(&mesh.lab.node("n3")?)?;
        let failed = failed.sum("weft_otlp_reports_total", &[("outcome", "failed")]);
        ensure!(failed > 0, "n3 has not tried yet");
        ensure!(
            told("n3") == 0,
            "n3 told a collector that it must not trust"
        );
        Ok(())
    })?;
    ask("n3")
}
