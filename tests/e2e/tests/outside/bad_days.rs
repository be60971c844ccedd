//! Agents that die, floods, and backends that go away.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use serde_json::{Value, json};
use weft_e2e::mesh::{TARGET, status};
use weft_e2e::stats::by_server;
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};
use weft_lab::probe::Summary;
use weft_lab::{GetOptions, LoadOptions, Place, PodSpec, WeftOptions};

use super::site::{OUTSIDE, Site};

const KILLS: u32 = 12;
/// Length of one run of a load; runs follow each other without a pause.
const RUN: Duration = Duration::from_secs(4);
/// After which a datagram is taken for lost.
const BRIEF: Duration = Duration::from_millis(500);
/// Half-open connections of a flood: many times what [`SMALL`] holds.
const FLOOD: u16 = 20_000;
const SMALL: u32 = 1024;

/// Loads both families in every way until told to stop; the sums of all runs.
fn constant_load(place: &Place, at: [SocketAddr; 2], done: &AtomicBool) -> Result<Vec<Summary>> {
    let mut sums = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let udp = LoadOptions {
            udp: true,
            ..LoadOptions::connects(100, RUN)
        };
        let loads = [
            place.load(at[0], &LoadOptions::connects(150, RUN))?,
            place.load(at[1], &LoadOptions::connects(100, RUN))?,
            place.load(at[0], &LoadOptions::requests(200, RUN))?,
            place.load(at[1], &udp)?,
        ];
        for load in loads {
            sums.push(load.finish()?);
        }
    }
    Ok(sums)
}

#[test]
fn killing_the_agent_over_and_over_fails_no_request_from_outside() -> Result {
    let mut site = Site::start()?;
    site.service(&json!({}), &[], 3)?;
    let (client, at) = (site.client()?, site.node_ports("n1")?);
    let done = AtomicBool::new(false);
    let sums = thread::scope(|scope| -> Result<Vec<Summary>> {
        let load = scope.spawn(|| constant_load(&client, at, &done));
        let killed = (|| -> Result {
            let weft = site.mesh.weft("n1")?;
            for kill in 0..KILLS {
                // At every stage: while it loads, adopts, syncs, and when all is done.
                if kill % 4 == 3 {
                    weft.wait_ready(LONG)?;
                } else {
                    thread::sleep(Duration::from_millis(u64::from(kill * 97 % 700)));
                }
                weft.restart()?;
            }
            Ok(weft.wait_ready(LONG)?)
        })();
        done.store(true, Ordering::Relaxed);
        let sums = load.join().map_err(|_| anyhow!("the load panicked"))?;
        killed.and(sums)
    })?;
    let requests: u64 = sums.iter().map(|s| s.requests).sum();
    assert!(requests > 1000, "hardly a load: {requests} requests");
    for sum in &sums {
        assert_eq!(sum.failed, 0, "{sum:?}");
    }
    Ok(())
}

/// Entries of a node's map, as the latest sweep counted them.
fn entries(site: &mut Site, node: &str, map: &str) -> Result<u64> {
    let status = status(site.mesh.weft(node)?)?;
    let maps = status["maps"].as_array().into_iter().flatten();
    let found = maps.filter(|row| row["name"] == map);
    Ok(found.filter_map(|row| row["entries"].as_u64()).sum())
}

#[test]
fn a_flood_of_half_open_connections_breaks_none_that_is_established() -> Result {
    let options = WeftOptions::default().arg(format!("--map-size=nat_pending={SMALL}"));
    let mut site = Site::start_with(&options)?;
    site.service(&json!({}), &[], 3)?;
    let (client, at) = (site.client()?, site.node_ports("n1")?);
    let longest = Duration::from_secs(30);
    let mut held = Vec::new();
    for at in at {
        for _ in 0..6 {
            held.push(client.hold_busy(at, longest)?);
        }
    }
    // Answers to the flood go to nobody, who sends no RST: half-open connections stay so.
    let claimed = SocketAddr::new(IpAddr::from([10, 244, 3, 200]), 20_000);
    site.mesh
        .lab
        .node(OUTSIDE)?
        .host()
        .flood(claimed, at[0], FLOOD)?;
    for at in at {
        let attempts = client.get(at, &GetOptions::tcp(20))?;
        assert!(
            attempts.iter().all(weft_lab::probe::Attempt::ok),
            "{attempts:?}"
        );
    }
    for hold in held {
        let held = hold.finish()?;
        assert!(!held.broken, "{held:?}");
    }
    // What is over is forgotten in time, and what is established is what there was.
    let established = entries(&mut site, "n1", "nat")?;
    assert!(established < u64::from(FLOOD) / 10, "{established}");
    Ok(())
}

#[test]
fn datagrams_go_on_to_another_backend_when_theirs_goes_away() -> Result {
    let mut site = Site::start()?;
    site.service(&json!({"selector": {"app": "other"}}), &[], 0)?;
    for (name, node) in [("one", "n1"), ("two", "n2")] {
        let spec = PodSpec::new(name, node).label("app", "other");
        let pod = site.mesh.lab.add_pod(spec)?;
        site.mesh
            .apply(&format!("pod-{name}"), &pod.manifest().yaml())?;
        site.mesh
            .serve_with(&[name], &weft_lab::ServeOptions::udp(TARGET))?;
    }
    site.service(&json!({"selector": {"app": "other"}}), &[], 2)?;
    for (name, node) in [("one", "n1"), ("two", "n2")] {
        site.mesh.wait_judged(name, node)?;
    }
    let at = site.node_ports("n1")?[0];
    eventually(LONG, || {
        let attempts = site
            .client()?
            .get(at, &GetOptions::udp(30).timeout(BRIEF))?;
        let lost: Vec<_> = attempts.iter().filter(|a| !a.ok()).collect();
        ensure!(lost.is_empty(), "{lost:?}");
        let answered = by_server(&attempts);
        ensure!(answered.len() == 2, "{answered:?}");
        Ok(())
    })?;
    let options = LoadOptions {
        udp: true,
        keep: true,
        concurrency: 4,
        timeout: BRIEF,
        log: Some(site.mesh.lab.dir().join("landings")),
        ..LoadOptions::requests(40, Duration::from_secs(12))
    };
    let load = site.client()?.load(at, &options)?;
    thread::sleep(Duration::from_secs(3));
    // Not deleted but not ready: it would go on answering, and is to be asked no more.
    let mut pod = site.mesh.pod("two")?.manifest().value();
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    site.mesh.apply("pod-two", &pod.to_string())?;
    site.service(&json!({"selector": {"app": "other"}}), &[], 1)?;
    let before = served(&mut site, "n1", "two")?;
    let (sum, landings) = load.finish_with_log()?;
    let begin = landings.iter().map(|l| l.begin_ns).min().unwrap_or(0);
    let lost: Vec<_> = landings
        .iter()
        .filter(|l| l.server.is_none())
        .map(|l| Duration::from_nanos(l.begin_ns - begin))
        .collect();
    assert_eq!(sum.failed, 0, "lost at {lost:?}: {sum:?}");
    let after = served(&mut site, "n1", "two")?;
    assert_eq!(before, after, "a backend that is not ready is asked");
    Ok(())
}

/// Connections and flows that a node has ever sent to a backend, by the name of its pod.
fn served(site: &mut Site, node: &str, pod: &str) -> Result<Vec<Value>> {
    let name = format!("pod/default/{pod}");
    let rows: Vec<Value> = serde_json::from_value(site.mesh.weft(node)?.cli_json(&["backends"])?)?;
    let rows = rows.into_iter().filter(|row| row["workload"] == name);
    Ok(rows.map(|row| row["totalConnections"].clone()).collect())
}

#[test]
fn connections_that_have_ended_are_forgotten() -> Result {
    let mut site = Site::start()?;
    site.service(&json!({}), &[], 3)?;
    for at in site.node_ports("n1")? {
        let attempts = site.client()?.get(at, &GetOptions::tcp(200))?;
        assert!(attempts.iter().all(weft_lab::probe::Attempt::ok));
    }
    let most = eventually(LONG, || {
        let most = entries(&mut site, "n1", "nat")?;
        ensure!(most > 0, "no sweep has seen them");
        Ok(most)
    })?;
    // Two or four for each connection.
    assert!(most <= 1600, "{most}");
    eventually(Duration::from_secs(90), || {
        let left = entries(&mut site, "n1", "nat")?;
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
}
