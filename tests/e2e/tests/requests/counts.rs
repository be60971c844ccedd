//! Requests in numbers, as `/metrics` has them.

use anyhow::ensure;
use weft_e2e::http::{curl, serve, urls, wait_status, with_envoy};
use weft_e2e::mesh::TARGET;
use weft_e2e::samples::{Samples, scrape};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};

use super::{pods, route};

/// From pod `client` to pod `near`, by its service.
const PAIR: [(&str, &str); 4] = [
    ("source_workload", "client"),
    ("destination_workload", "near"),
    ("service", "default/near"),
    ("direction", "egress"),
];

fn answered(samples: &Samples, status: &str) -> u64 {
    let labels = [&PAIR[..], &[("status", status)]].concat();
    samples.sum("weft_requests_total", &labels)
}

#[test]
fn requests_are_counted_and_timed_by_who_asks_whom() -> Result {
    let options = with_envoy().arg("--request-metrics").arg("on");
    let mesh = Mesh::start_with(pods(), &options)?;
    route(&mesh)?;
    let (client, node) = (mesh.pod("client")?, mesh.lab.node("n1")?);
    let url = &urls(1, "/x")[0];
    // Nobody serves yet: Envoy answers.
    wait_status(&client, url, 503)?;
    eventually(LONG, || {
        let failed = scrape(&node)?.sum("weft_requests_total", &[("status", "5xx")]);
        ensure!(failed > 0, "no failed request is counted yet");
        Ok(())
    })?;
    let _server = serve(&mesh.lab, "near", TARGET)?;
    wait_status(&client, url, 200)?;
    for _ in 0..7 {
        ensure!(curl(&client, url, &[])?.status == 200);
    }
    let seen = curl(&client, &urls(1, "/log")[0], &[])?.seen()?;
    let log = seen["log"].as_array().map_or(0, Vec::len) as u64;
    eventually(LONG, || {
        let samples = scrape(&node)?;
        let told = answered(&samples, "2xx");
        ensure!(
            told == log,
            "{told} requests are counted, {log} were served"
        );
        let timed = samples.sum("weft_request_duration_seconds_count", &PAIR);
        ensure!(timed >= log, "{timed} are timed");
        ensure!(samples.sum("weft_requests_uncounted_total", &[]) == 0);
        Ok(())
    })
}
