//! How backends are chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;
use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::stats::{assert_even, assert_spread, by_server};
use weft_e2e::{Mesh, Result, eventually, wait::LONG};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{GetOptions, Lab, LabBuilder, Pod, PodSpec};

fn web() -> ServiceManifest {
    ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "web")
}

fn one_node(backends: &[&str]) -> LabBuilder {
    let lab = Lab::builder().node("n1").pod(PodSpec::new("client", "n1"));
    backends.iter().fold(lab, |lab, name| {
        lab.pod(PodSpec::new(*name, "n1").label("app", "web"))
    })
}

/// A TrafficPolicy for the service `web`.
fn policy(load_balancing: &serde_json::Value) -> String {
    json!({
        "apiVersion": "weft.io/v1alpha1",
        "kind": "TrafficPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "targetRefs": [{"kind": "Service", "name": "web"}],
            "loadBalancing": load_balancing,
        },
    })
    .to_string()
}

/// The service with a policy in force, `ready` backends behind it.
fn with_policy(mesh: &mut Mesh, name: &str, ready: u64) -> Result {
    mesh.apply("policy", &policy(&json!({"policy": name})))?;
    mesh.service(&web(), ready)?;
    let weft = mesh.weft("n1")?;
    eventually(LONG, || {
        let services = weft.cli_json(&["services", "default/web"])?;
        let policies: Vec<_> = services
            .as_array()
            .into_iter()
            .flatten()
            .map(|s| &s["policy"])
            .collect();
        ensure!(
            !policies.is_empty() && policies.iter().all(|p| **p == *name),
            "{services:#}"
        );
        Ok(())
    })
}

fn with_weight(pod: &Pod, weight: u32) -> String {
    let mut value = pod.manifest().value();
    value["metadata"]["annotations"] = json!({"weft.io/weight": weight.to_string()});
    value.to_string()
}

#[test]
fn weights_are_shares() -> Result {
    let mut mesh = Mesh::start(one_node(&["a", "b", "c"]))?;
    mesh.serve(&["a", "b", "c"])?;
    mesh.apply("pod-b", &with_weight(&mesh.pod("b")?, 3))?;
    mesh.apply("pod-c", &with_weight(&mesh.pod("c")?, 6))?;
    mesh.service(&web(), 3)?;
    let weft = mesh.weft("n1")?;
    eventually(LONG, || {
        let backends = weft.cli_json(&["backends", "default/web"])?;
        let weights: BTreeSet<u64> = backends
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|b| b["weight"].as_u64())
            .collect();
        ensure!(weights == BTreeSet::from([1, 3, 6]), "{backends:#}");
        Ok(())
    })?;
    let shares = [("a", 1.0), ("b", 3.0), ("c", 6.0)];
    for vip in vips(0) {
        let attempts = mesh.pod("client")?.get(vip, &GetOptions::tcp(600))?;
        assert_spread(&by_server(&attempts), &shares);
    }
    // In turn, too.
    with_policy(&mut mesh, "RoundRobin", 3)?;
    let attempts = mesh.pod("client")?.get(vips(0)[0], &GetOptions::tcp(100))?;
    let counts = by_server(&attempts);
    assert_eq!(
        counts,
        BTreeMap::from([("a".into(), 10), ("b".into(), 30), ("c".into(), 60)])
    );
    Ok(())
}

#[test]
fn round_robin_is_exact() -> Result {
    let backends = ["a", "b", "c"];
    let mut mesh = Mesh::start(one_node(&backends))?;
    mesh.serve(&backends)?;
    with_policy(&mut mesh, "RoundRobin", 3)?;
    for vip in vips(0) {
        let attempts = mesh.pod("client")?.get(vip, &GetOptions::tcp(30))?;
        let servers: Vec<&str> = attempts
            .iter()
            .filter_map(|a| a.server.as_deref())
            .collect();
        assert_eq!(servers.len(), 30, "{attempts:?}");
        for (number, window) in servers.windows(3).enumerate() {
            let distinct: BTreeSet<&&str> = window.iter().collect();
            assert_eq!(
                distinct.len(),
                3,
                "connections {number} to {} of {servers:?}",
                number + 2
            );
        }
    }
    Ok(())
}

#[test]
fn least_request_avoids_busy_backends() -> Result {
    let mut mesh = Mesh::start(one_node(&["busy", "idle"]))?;
    mesh.serve(&["busy", "idle"])?;
    let idle = mesh.pod("idle")?;
    mesh.apply("pod-idle", &idle.manifest().ready(false).yaml())?;
    with_policy(&mut mesh, "LeastRequest", 1)?;
    let client = mesh.pod("client")?;
    let held = (0..8)
        .map(|_| client.hold(vips(0)[0], false, Duration::from_secs(60)))
        .collect::<Result<Vec<_>, _>>()?;
    assert!(held.iter().all(|h| h.server().as_deref() == Some("busy")));
    mesh.apply("pod-idle", &idle.manifest().yaml())?;
    mesh.wait_ready_backends("default/web", 2)?;

    // Of two random choices the idler one: three of four at least. A coin would get here once in 1e9 runs.
    let counts = by_server(&client.get(vips(0)[0], &GetOptions::tcp(400))?);
    assert!(counts.get("idle") > Some(&262), "{counts:?}");

    let backends = mesh.weft("n1")?.cli_json(&["backends", "default/web"])?;
    let open: Vec<_> = backends
        .as_array()
        .into_iter()
        .flatten()
        .map(|b| &b["openConnections"])
        .collect();
    assert!(open.iter().any(|n| **n == 8), "{backends:#}");

    // Once they are closed, both are alike again.
    drop(held);
    let weft = mesh.weft("n1")?;
    eventually(LONG, || {
        let backends = weft.cli_json(&["backends", "default/web"])?;
        let open: u64 = backends
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|b| b["openConnections"].as_u64())
            .sum();
        ensure!(open == 0, "{backends:#}");
        Ok(())
    })?;
    assert_even(
        &by_server(&client.get(vips(0)[0], &GetOptions::tcp(200))?),
        &["busy", "idle"],
    );
    Ok(())
}

/// Where each client lands, always the same place.
fn homes(clients: &[Pod], requests: u32) -> Result<BTreeMap<String, String>> {
    clients
        .iter()
        .map(|client| {
            let counts = by_server(&client.get(vips(0)[0], &GetOptions::tcp(requests))?);
            assert_eq!(
                counts.len(),
                1,
                "{} does not stay: {counts:?}",
                client.name()
            );
            let home = counts.into_keys().next().context("no server")?;
            Ok((client.name().to_owned(), home))
        })
        .collect()
}

#[test]
fn maglev_keeps_clients_where_they_are() -> Result {
    let backends = ["a", "b", "c", "d"];
    let mut lab = one_node(&backends);
    let names: Vec<String> = (0..12).map(|n| format!("client{n}")).collect();
    for name in &names {
        lab = lab.pod(PodSpec::new(name, "n1"));
    }
    let mut mesh = Mesh::start(lab)?;
    mesh.serve(&backends)?;
    with_policy(&mut mesh, "Maglev", 4)?;
    let clients = names
        .iter()
        .map(|name| mesh.pod(name))
        .collect::<Result<Vec<_>>>()?;
    let before = homes(&clients, 10)?;
    let used: BTreeSet<&String> = before.values().collect();
    // All twelve on one of four: once in 4 million runs.
    assert!(used.len() > 1, "{before:?}");

    let gone = before.values().next().context("no client")?.clone();
    mesh.lab.manifests().remove(&format!("pod-{gone}"))?;
    mesh.wait_ready_backends("default/web", 3)?;
    let after = homes(&clients, 5)?;
    assert!(after.values().all(|home| *home != gone), "{after:?}");
    let moved = before
        .iter()
        .filter(|(name, home)| **home != gone && after.get(*name) != Some(home));
    // The table moves few entries beyond those of the backend that went.
    assert!(moved.count() <= 2, "{before:?} became {after:?}");
    Ok(())
}

#[test]
fn client_affinity_lasts_while_it_is_used_and_no_longer() -> Result {
    let backends = ["a", "b", "c"];
    let mut lab = one_node(&backends);
    let names: Vec<String> = (0..6).map(|n| format!("client{n}")).collect();
    for name in &names {
        lab = lab.pod(PodSpec::new(name, "n1"));
    }
    let mut mesh = Mesh::start(lab)?;
    mesh.serve(&backends)?;
    let timeout = Duration::from_secs(2);
    mesh.service(&web().client_ip_affinity(timeout), 3)?;
    let clients = names
        .iter()
        .map(|name| mesh.pod(name))
        .collect::<Result<Vec<_>>>()?;

    // Used now and again, it outlives its timeout.
    let first = homes(&clients, 10)?;
    for _ in 0..4 {
        sleep(timeout / 2);
        assert_eq!(homes(&clients, 2)?, first);
    }
    // Six clients that all land on the same of three backends again, three times: once in 4e8 runs.
    let mut places = vec![first];
    for _ in 0..3 {
        sleep(timeout + Duration::from_millis(300));
        places.push(homes(&clients, 3)?);
    }
    assert!(
        places.windows(2).any(|pair| pair[0] != pair[1]),
        "{places:?}"
    );

    // The backend that a client is bound to goes away: it moves.
    let client = &clients[0];
    let home = homes(std::slice::from_ref(client), 2)?
        .into_values()
        .next()
        .context("no home")?;
    mesh.lab.manifests().remove(&format!("pod-{home}"))?;
    mesh.wait_ready_backends("default/web", 2)?;
    let moved = homes(std::slice::from_ref(client), 5)?;
    assert!(moved.values().all(|place| *place != home), "{moved:?}");
    Ok(())
}
