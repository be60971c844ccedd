//! What is shown, in this order. An act takes the stage as it finds it and leaves it as it was.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use weft_lab::probe::{Attempt, monotonic_ns};
use weft_lab::{GetOptions, LoadOptions};

use crate::stage::{DNS, NOBODY, Stage, WEB, WEB_V6, address};
use crate::talk;

mod denied;
mod mtls;
mod requests;
mod routes;

type Act = fn(&mut Stage) -> Result<()>;

/// All acts.
pub(crate) const ALL: &[(&str, Act)] = &[
    ("Look: what the node's agent has put into the kernel", look),
    ("Balance: requests to one service address", balance),
    ("UDP: the answer comes from the service address", udp),
    (
        "A backend goes away: its connections break at once",
        backend_goes_away,
    ),
    ("No backend: refused at once", refused),
    (
        "A policy: who may not is told so, and why is there to read",
        denied::denied,
    ),
    ("An HTTP route, through the node's Envoy", routes::routes),
    (
        "A policy about requests: a method is refused, and says why",
        requests::requests,
    ),
    ("mTLS between the nodes, seen on the wire", mtls::mtls),
    ("SIGKILL both agents under load", kill_agents),
];

fn look(stage: &mut Stage) -> Result<()> {
    talk::explain(
        "Service addresses exist on no interface. The kernel replaces them when a pod connects.",
    );
    for verb in ["status", "services", "backends"] {
        stage.show(&[verb])?;
    }
    Ok(())
}

fn balance(stage: &mut Stage) -> Result<()> {
    talk::explain("300 connections from the pod `client` to shop/web, half of them over IPv6.");
    let mut attempts = ask(stage, WEB, GetOptions::tcp(150))?;
    attempts.extend(ask(stage, WEB_V6, GetOptions::tcp(150))?);
    let counts = by_server(&attempts)?;
    talk::bars(&counts);
    ensure!(
        counts.len() == 3,
        "all three backends should have answered: {counts:?}"
    );
    talk::holds(
        "every request was answered; the packets carry the backend's address, nothing translates them",
    );
    Ok(())
}

fn udp(stage: &mut Stage) -> Result<()> {
    let service = address(DNS)?;
    let attempts = ask(stage, DNS, GetOptions::udp(100))?;
    let counts = by_server(&attempts)?;
    talk::bars(&counts);
    if let Some(other) = attempts
        .iter()
        .find(|attempt| attempt.from != Some(service))
    {
        bail!("an answer came from {:?}, not from {service}", other.from);
    }
    talk::holds(&format!(
        "100 answers from {} pods, each seen as coming from {service}",
        counts.len()
    ));
    Ok(())
}

fn backend_goes_away(stage: &mut Stage) -> Result<()> {
    let (client, service) = (stage.client()?, address(WEB)?);
    let hold = client.hold(service, false, Duration::from_secs(10))?;
    let server = hold.server().context("the held connection has no server")?;
    let manifest = format!("pod-{server}");
    talk::explain(&format!(
        "A connection is open to {server}. Its manifest is deleted:"
    ));
    let removed_ns = monotonic_ns();
    stage.lab.manifests().remove(&manifest)?;
    let held = hold.finish()?;
    let broken_ns = held
        .broken_ns
        .context("the connection to a removed backend stayed open")?;
    let after_ms = broken_ns.saturating_sub(removed_ns) / 1_000_000;
    talk::holds(&format!(
        "closed {after_ms} ms after the file was removed; the client sees {}",
        held.errno.unwrap_or_default()
    ));
    let counts = by_server(&ask(stage, WEB, GetOptions::tcp(100))?)?;
    talk::bars(&counts);
    ensure!(
        !counts.contains_key(&server),
        "{server} still gets new connections: {counts:?}"
    );
    talk::holds(&format!("none of 100 new connections went to {server}"));
    stage.put_back(&manifest)?;
    wait_until_back(stage, &server)
}

/// The next act starts with all backends again.
fn wait_until_back(stage: &Stage, server: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        let attempts = ask(stage, WEB, GetOptions::tcp(20))?;
        if by_server(&attempts)?.contains_key(server) {
            return Ok(());
        }
        sleep(Duration::from_millis(50));
    }
    bail!("{server} gets no connections after its manifest came back")
}

fn refused(stage: &mut Stage) -> Result<()> {
    talk::explain("The selector of shop/nobody matches no pod.");
    let attempts = stage
        .client()?
        .get(address(NOBODY)?, &GetOptions::default())?;
    let attempt = attempts.first().context("no attempt was made")?;
    let errno = attempt.errno.as_deref().unwrap_or("an answer");
    ensure!(
        errno == "ECONNREFUSED",
        "expected ECONNREFUSED, got {errno}"
    );
    talk::holds(&format!(
        "ECONNREFUSED after {} µs, not a timeout",
        attempt.elapsed_us
    ));
    Ok(())
}

fn kill_agents(stage: &mut Stage) -> Result<()> {
    talk::explain(
        "500 new connections a second for 4 s; after 1 s both agents are killed, after 2 s started again.",
    );
    let options = LoadOptions::connects(500, Duration::from_secs(4));
    let load = stage.client()?.load(address(WEB)?, &options)?;
    sleep(Duration::from_secs(1));
    for agent in &mut stage.agents {
        agent.kill9();
    }
    sleep(Duration::from_secs(1));
    for agent in &mut stage.agents {
        agent.restart()?;
    }
    stage.wait_ready()?;
    let summary = load.finish()?;
    talk::bars(&summary.by_server);
    ensure!(
        summary.failed == 0,
        "{} requests failed: {:?}",
        summary.failed,
        summary.errors
    );
    talk::holds(&format!(
        "{} requests, 0 failed; the agents found their maps and programs and took over",
        summary.requests
    ));
    Ok(())
}

/// Requests from the client; the first one alone, so that a broken mesh shows after one timeout, not after hundreds.
fn ask(stage: &Stage, service: &str, options: GetOptions) -> Result<Vec<Attempt>> {
    let (client, to) = (stage.client()?, address(service)?);
    let options = options.timeout(Duration::from_secs(2));
    let first = GetOptions {
        count: 1,
        ..options.clone()
    };
    let mut attempts = client.get(to, &first)?;
    by_server(&attempts)?;
    let rest = GetOptions {
        count: options.count.saturating_sub(1),
        ..options
    };
    attempts.extend(client.get(to, &rest)?);
    Ok(attempts)
}

/// Answers by server; an error if a request went unanswered.
fn by_server(attempts: &[Attempt]) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for attempt in attempts {
        let Some(server) = attempt.server.clone().filter(|_| attempt.ok()) else {
            bail!(
                "a request failed: {}",
                attempt.error.as_deref().unwrap_or("no answer")
            );
        };
        *counts.entry(server).or_default() += 1;
    }
    Ok(counts)
}
