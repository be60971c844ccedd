//! What Weft tells of connections through Envoy, against what Envoy itself has counted for the same requests.

use super::*;
use weft_e2e::samples::{Samples, scrape};

/// Requests, each over a connection of its own.
const REQUESTS: u64 = 25;
/// Bytes that each one posts at least.
const BODY: usize = 3_000;
/// Headers of an IPv4 packet of TCP with timestamps, and what a SYN has beyond that.
const HEADERS: u64 = 52;
const MORE_IN_SYN: u64 = 8;

/// Envoy's counters, by name.
pub(super) fn envoy(node: &Node) -> Result<BTreeMap<String, u64>> {
    let admin = node.run_dir().join("envoy/admin.sock");
    let curl = node.command("curl").args(["-sS", "-g", "--unix-socket"]);
    let stats = curl.arg(admin).arg("http://envoy/stats").run(LONG)?;
    let stats = stats.success()?.stdout;
    let counter = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Ok(stats.lines().filter_map(counter).collect())
}

/// A counter of everything that Envoy serves, but for its own administration.
fn downstream(stats: &BTreeMap<String, u64>, name: &str) -> u64 {
    let is_meant = |key: &&String| {
        key.starts_with("http.") && !key.starts_with("http.admin.") && key.ends_with(name)
    };
    let keys = stats.iter().filter(|(key, _)| is_meant(key));
    keys.map(|(_, value)| value).sum()
}

/// A counter of one service's cluster.
fn upstream(stats: &BTreeMap<String, u64>, service: &str, name: &str) -> u64 {
    let is_meant = |key: &&String| {
        key.starts_with("cluster.") && key.contains(service) && key.ends_with(&format!(".{name}"))
    };
    let keys = stats.iter().filter(|(key, _)| is_meant(key));
    keys.map(|(_, value)| value).sum()
}

/// Numbers of one direction of the connections that a pod made to `address` through Envoy.
#[derive(Debug, Default, PartialEq)]
struct Told {
    opened: u64,
    closed: u64,
    /// Without headers, of those that were closed: sent by the client, by Envoy.
    bytes: [u64; 2],
    /// Segments of those that were closed.
    sent_again: u64,
}

fn told(node: &Node, of: impl Fn(&Value) -> bool) -> Result<Told> {
    let flows = weft_lab::weft::cli(node, &["flows", "--last", "5000", "-o", "json"])?;
    let flows: Vec<Value> = flows.success()?.json_lines()?;
    let mut told = Told::default();
    for flow in flows.iter().filter(|f| f["path"] == "envoy" && of(f)) {
        match flow["event"].as_str() {
            Some("open") => told.opened += 1,
            Some("close") => {
                told.closed += 1;
                told.sent_again += flow["retransmits"].as_u64().context("a number")?;
                for (place, end) in ["sent", "received"].iter().enumerate() {
                    let number = |what: &str| flow[what][end].as_u64().context("a number");
                    let headers = number("packets")? * HEADERS + MORE_IN_SYN;
                    let payload = number("bytes")?.checked_sub(headers);
                    told.bytes[place] += payload.with_context(|| flow.to_string())?;
                }
            }
            _ => {}
        }
    }
    Ok(told)
}

/// Connections that a metric has counted from the client to the service `web`.
fn metric(samples: &Samples, name: &str) -> u64 {
    let labels = [("source_workload", "client"), ("service", "default/web")];
    samples.sum(name, &labels)
}

#[test]
fn flows_metrics_and_envoys_own_counters_agree() -> Result {
    let (mesh, _servers) = start(pods(), &SERVERS)?;
    services(&mesh)?;
    mesh.apply("route", &route(BOTH))?;
    // Somebody else finds out when the routes are there: nobody has seen the client before.
    wait_both(&mesh.pod("stranger")?, &["/near", "/far"], 200)?;
    let node = mesh.lab.node("n1")?;
    let before = eventually(LONG, || {
        let (one, other) = (envoy(&node)?, envoy(&node)?);
        let open = downstream(&one, "downstream_cx_active");
        ensure!(open == 0 && downstream(&other, "downstream_cx_active") == 0);
        Ok(other)
    })?;

    let client = mesh.pod("client")?;
    let body = "x".repeat(BODY);
    for number in 0..REQUESTS {
        let url = &urls(3, if number % 2 == 0 { "/near" } else { "/far" })[0];
        let answer = curl(&client, url, &["-d", &body, "-H", "Expect:"])?;
        ensure!(answer.status == 200, "{answer:?}");
    }

    let vip = weft_e2e::mesh::vips(3)[0].ip().to_string();
    let of_client = |flow: &Value| flow["source"]["pod"] == "client";
    let to_web = |flow: &Value| of_client(flow) && flow["destination"]["address"] == vip.as_str();
    let (stats, web) = eventually(LONG, || {
        let (stats, web) = (envoy(&node)?, told(&node, to_web)?);
        ensure!(downstream(&stats, "downstream_cx_active") == 0);
        ensure!(web.closed == REQUESTS, "{web:?}");
        Ok((stats, web))
    })?;
    let grew = |name: &str| downstream(&stats, name) - downstream(&before, name);
    let requests = grew("downstream_rq_completed");
    ensure!(
        requests == REQUESTS,
        "Envoy has counted {requests} requests"
    );
    let of_envoy = Told {
        opened: grew("downstream_cx_total"),
        closed: grew("downstream_cx_destroy"),
        bytes: [
            grew("downstream_cx_rx_bytes_total"),
            grew("downstream_cx_tx_bytes_total"),
        ],
        sent_again: web.sent_again,
    };
    ensure!(web == of_envoy, "{web:?} is told, Envoy has {of_envoy:?}");
    ensure!(web.bytes[0] > REQUESTS * BODY as u64, "{web:?}");
    // Were what is turned to Envoy seen twice, all of it would count as sent again.
    ensure!(web.sent_again < REQUESTS, "{web:?}");

    // What Envoy opened in the client's name, it also counts.
    for (server, asked) in [("near", REQUESTS.div_ceil(2)), ("far", REQUESTS / 2)] {
        let to = |flow: &Value| of_client(flow) && flow["destination"]["pod"] == server;
        let grew = |name: &str| upstream(&stats, server, name) - upstream(&before, server, name);
        ensure!(grew("upstream_rq_total") == asked, "{server}: {stats:?}");
        eventually(LONG, || {
            let (opened, of_envoy) = (told(&node, to)?.opened, grew("upstream_cx_total"));
            ensure!(
                opened == of_envoy,
                "{opened} to {server} are told, Envoy has {of_envoy}"
            );
            Ok(())
        })?;
    }

    let samples = scrape(&node)?;
    let opened = metric(&samples, "weft_connections_opened_total");
    let closed = metric(&samples, "weft_connections_closed_total");
    ensure!([opened, closed] == [REQUESTS; 2], "{opened}, {closed}");
    Ok(())
}
