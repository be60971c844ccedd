//! Pods that say they are somebody else: with raw sockets, and with another's address on their own link.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::counters::counters;
use weft_e2e::mesh::TARGET;
use weft_e2e::reach::{asks, hold, settle};
use weft_e2e::town::{self, CLIENTS, FRIENDS_ONLY, SERVER, by_friend};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::Pod;

/// Packets of each kind.
const COUNT: u32 = 10;
/// Nobody listens there.
const SOURCE_PORT: u16 = 4321;

/// TCP segments of both families, IPv4 datagrams and IPv6 datagrams that this pod's sockets were given.
fn received(pod: &Pod) -> Result<[u64; 3]> {
    let counters = counters(pod)?;
    let number = |name: &'static str| counters.get(name).copied().context(name);
    Ok([
        number("Tcp:InSegs")?,
        number("Udp:InDatagrams")?,
        number("Udp6InDatagrams")?,
    ])
}

/// What the pod has received, once nothing comes any more.
fn quiet(pod: &Pod) -> Result<[u64; 3]> {
    const QUIET: Duration = Duration::from_millis(300);
    eventually(LONG, || {
        let before = received(pod)?;
        sleep(QUIET);
        let now = received(pod)?;
        ensure!(now == before, "packets still come");
        Ok(now)
    })
}

/// `COUNT` SYNs and as many datagrams of each family from `sender`, as if from `claimed`.
fn send_as(sender: &Pod, claimed: &Pod, server: &Pod) -> Result {
    let pairs = [
        (claimed.socket_v4(SOURCE_PORT), server.socket_v4(TARGET)),
        (claimed.socket_v6(SOURCE_PORT), server.socket_v6(TARGET)),
    ];
    for (from, to) in pairs {
        for udp in [false, true] {
            sender.spoof(from, to, udp, COUNT)?;
        }
    }
    Ok(())
}

/// Waits until `node` has told that it refused such packets from `claimed` as spoofed, in each protocol and family.
fn told(mesh: &mut Mesh, node: &str, claimed: &Pod) -> Result {
    let mut expected = Vec::new();
    for address in claimed.addresses().both() {
        expected.extend(["tcp", "udp"].map(|protocol| (protocol, address.to_string())));
    }
    let weft = mesh.weft(node)?;
    let args = [
        "flows",
        "--verdict",
        "denied",
        "--last",
        "10000",
        "-o",
        "json",
    ];
    eventually(LONG, || {
        let flows: Vec<Value> = weft.cli(&args)?.success()?.json_lines()?;
        for (protocol, address) in &expected {
            let found = flows.iter().any(|flow| {
                flow["reason"] == "spoofed"
                    && flow["protocol"] == *protocol
                    && flow["source"]["address"] == *address
                    && flow["source"]["port"] == SOURCE_PORT
            });
            ensure!(
                found,
                "{node} says nothing of {protocol} from {address}: {flows:#?}"
            );
        }
        Ok(())
    })
}

#[test]
fn anothers_source_address_gets_nobody_in() -> Result {
    let mut mesh = town::start()?;
    mesh.apply("policies", FRIENDS_ONLY)?;
    let everybody = asks(&mesh, &CLIENTS, SERVER)?;
    settle(&everybody, by_friend)?;
    let server = mesh.pod(SERVER)?;
    // What they are let in with, when it is their own.
    for name in ["friend-near", "friend-far"] {
        let (friend, before) = (mesh.pod(name)?, quiet(&server)?);
        send_as(&friend, &friend, &server)?;
        eventually(LONG, || {
            let now = received(&server)?;
            let sent = [2 * COUNT, COUNT, COUNT].map(u64::from);
            let all_came = (0..3).all(|kind| now[kind] - before[kind] >= sent[kind]);
            ensure!(all_came, "{before:?} became {now:?} by {name}");
            Ok(())
        })?;
    }
    for (sender, node) in [("impostor-near", "n1"), ("impostor-far", "n2")] {
        for claimed in ["friend-near", "friend-far"] {
            let (sender, claimed) = (mesh.pod(sender)?, mesh.pod(claimed)?);
            let before = quiet(&server)?;
            send_as(&sender, &claimed, &server)?;
            told(&mut mesh, node, &claimed)?;
            let (sender, claimed) = (sender.name(), claimed.name());
            assert_eq!(received(&server)?, before, "{sender} as {claimed}");
        }
    }
    hold(&everybody, by_friend)
}

#[test]
fn anothers_address_on_ones_own_link_gets_nobody_in() -> Result {
    let mesh = town::start()?;
    mesh.apply("policies", FRIENDS_ONLY)?;
    let everybody = asks(&mesh, &CLIENTS, SERVER)?;
    settle(&everybody, by_friend)?;
    let server = mesh.pod(SERVER)?;
    // From now on everything that the impostors send comes from the friends' addresses.
    for (thief, victim) in [
        ("impostor-near", "friend-near"),
        ("impostor-far", "friend-far"),
    ] {
        let (thief, victim) = (mesh.pod(thief)?, mesh.pod(victim)?.addresses());
        let routes = format!(
            "addr add {v4}/32 dev eth0\naddr add {v6}/128 dev eth0 nodad\n\
             route change default via {gateway} dev eth0 src {v4}\nroute replace ::/0 via fe80::1 dev eth0 src {v6}\n",
            v4 = victim.v4,
            v6 = victim.v6,
            gateway = weft_lab::addr::gateway_v4(mesh.lab.node(thief.node())?.index()),
        );
        thief.netns().ip(&routes)?;
        let before = quiet(&server)?;
        hold(&asks(&mesh, &[thief.name()], SERVER)?, |_| false)?;
        assert_eq!(quiet(&server)?, before, "from {}", thief.name());
    }
    hold(&everybody, by_friend)
}
