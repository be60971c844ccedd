//! Acceleration of what a pod says to itself: only where it is asked for, and never from one pod's loopback into another's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::ensure;
use serde_json::json;
use weft_e2e::accel::{Pair, SCENARIOS};
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const WANTED: [&str; 2] = ["--acceleration-loopback", "on"];

/// Runs a scenario within a pod.
fn run(pair: &Pair, pod: &str, scenario: &str, at: SocketAddr) -> Result {
    Pair::finish(scenario, pair.begin_within(pod, scenario, at)?)
}

/// Runs a scenario within a pod, and tells how many of its bytes were accelerated.
fn bytes(pair: &mut Pair, pod: &str, scenario: &str, at: SocketAddr) -> Result<u64> {
    let before = pair.count("accelerated_bytes")?;
    run(pair, pod, scenario, at)?;
    Ok(pair.count("accelerated_bytes")? - before)
}

/// Two pods, each of which is accelerated within.
fn start() -> Result<Pair> {
    let mut pair = Pair::start(&WANTED)?;
    for pod in ["client", "server"] {
        eventually(LONG, || {
            let at = SocketAddr::new(LOOPBACK, pair.port());
            ensure!(bytes(&mut pair, pod, "hello", at)? > 0, "{pod}: not yet");
            Ok(())
        })?;
    }
    Ok(pair)
}

#[test]
fn applications_see_nothing_but_tcp() -> Result {
    let mut pair = start()?;
    for scenario in SCENARIOS {
        let at = SocketAddr::new(LOOPBACK, pair.port());
        let bytes = bytes(&mut pair, "server", scenario, at)?;
        ensure!(bytes > 1, "{scenario}: nothing was accelerated");
    }
    let own = pair.mesh.pod("server")?;
    let own = [own.socket_v4(0).ip(), own.socket_v6(0).ip()];
    for address in [IpAddr::V6(Ipv6Addr::LOCALHOST), own[0], own[1]] {
        for scenario in ["half", "both"] {
            let at = SocketAddr::new(address, pair.port());
            let bytes = bytes(&mut pair, "server", scenario, at)?;
            ensure!(bytes > 1, "{scenario} at {address}: nothing was");
        }
    }
    Ok(())
}

#[test]
fn the_same_ports_in_two_pods_are_two_connections() -> Result {
    let mut pair = start()?;
    let at = SocketAddr::new(LOOPBACK, pair.port());
    for pod in ["client", "server"] {
        // One port to choose from: addresses and ports of both connections are the same.
        let set = "echo 40001 40001 >/proc/sys/net/ipv4/ip_local_port_range";
        let shell = pair.mesh.pod(pod)?.command("sh").args(["-c", set]);
        shell.run(LONG)?.success()?;
    }
    let before = pair.count("accelerated_bytes")?;
    // They end after as many bytes as they want, and look at each.
    let first = pair.begin_within("client", "both", at)?;
    let second = pair.begin_within("server", "both", at)?;
    Pair::finish("both", first)?;
    let one = pair.count("accelerated_bytes")?;
    Pair::finish("both", second)?;
    ensure!(one > before, "nothing was accelerated");
    // Within each alone it goes on working.
    for pod in ["client", "server"] {
        let at = SocketAddr::new(LOOPBACK, pair.port());
        let set = "echo 40000 50000 >/proc/sys/net/ipv4/ip_local_port_range";
        let shell = pair.mesh.pod(pod)?.command("sh").args(["-c", set]);
        shell.run(LONG)?.success()?;
        ensure!(bytes(&mut pair, pod, "half", at)? > 1, "{pod}");
    }
    Ok(())
}

#[test]
fn only_where_it_is_asked_for() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    let at = SocketAddr::new(LOOPBACK, pair.port());
    ensure!(bytes(&mut pair, "server", "half", at)? == 0, "by default");
    drop(pair);

    let mut pair = start()?;
    let mut client = pair.mesh.pod("client")?.manifest().value();
    client["metadata"]["annotations"] = json!({"weft.io/acceleration": "off"});
    pair.mesh.apply("pod-client", &client.to_string())?;
    eventually(LONG, || {
        let at = SocketAddr::new(LOOPBACK, pair.port());
        ensure!(bytes(&mut pair, "client", "half", at)? == 0, "opted out");
        Ok(())
    })?;
    let at = SocketAddr::new(LOOPBACK, pair.port());
    ensure!(
        bytes(&mut pair, "server", "half", at)? > 1,
        "only one of them has opted out"
    );
    Ok(())
}

#[test]
fn what_is_translated_within_a_pod_stays_on_tcp() -> Result {
    let mut pair = start()?;
    let (asked, at) = (pair.port(), pair.port());
    let rule = format!(
        "iptables -t nat -A OUTPUT -o lo -p tcp --dport {asked} -j REDIRECT --to-ports {at}"
    );
    let shell = pair.mesh.pod("server")?.command("sh").args(["-c", &rule]);
    shell.run(LONG)?.success()?;
    let before = pair.count("accelerated_bytes")?;
    let [asked, at] = [asked, at].map(|port| SocketAddr::new(LOOPBACK, port));
    let ends = pair.begin_translated("server", "both", at, asked)?;
    Pair::finish("both", ends)?;
    ensure!(pair.count("accelerated_bytes")? == before, "guessed");
    // And who is asked by its own port meanwhile is not.
    let at = SocketAddr::new(LOOPBACK, pair.port());
    ensure!(bytes(&mut pair, "server", "both", at)? > 1);
    Ok(())
}
