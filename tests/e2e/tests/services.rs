//! A client connects to a service address and lands on a backend: every protocol, family, kind of socket and place.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;
use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::stats::{assert_even, by_server};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::probe::Attempt;
use weft_lab::{DualStack, GetOptions, Lab, LabBuilder, PodSpec, ServeOptions};

fn web_pod(name: &str, node: &str) -> PodSpec {
    PodSpec::new(name, node).label("app", "web")
}

/// A client and a backend on one node, two backends on another.
fn two_nodes() -> LabBuilder {
    Lab::builder()
        .node("n1")
        .node("n2")
        .pod(PodSpec::new("client", "n1"))
        .pod(web_pod("near", "n1"))
        .pod(web_pod("far", "n2"))
        .pod(web_pod("farther", "n2"))
}

fn web(index: u16) -> ServiceManifest {
    ServiceManifest::new("web")
        .cluster_ips(vip_addresses(index))
        .port(ServicePort::tcp(PORT).named("tcp").to(TARGET))
        .port(ServicePort::udp(PORT).named("udp").to(TARGET))
        .selector("app", "web")
}

/// Every kind of socket that a request can be made with.
fn kinds(count: u32) -> [GetOptions; 3] {
    [
        GetOptions::tcp(count),
        GetOptions::udp(count),
        GetOptions::udp_connected(count),
    ]
}

const NODE_PORT: u16 = 30_080;
const BACKENDS: [&str; 3] = ["near", "far", "farther"];

/// What both ends see of a request to `vip` from a place with these addresses.
fn assert_views(attempt: &Attempt, vip: SocketAddr, udp: bool, own: DualStack) {
    // The application sees whom it asked for...
    if udp {
        assert_eq!(attempt.from, Some(vip), "source of the answer: {attempt:?}");
    }
    if let Some(peer) = attempt.peer {
        assert_eq!(peer, vip, "getpeername: {attempt:?}");
    }
    // ...and packets travel between the pods' own addresses.
    let seen_as = attempt.seen_as.map(|a| a.ip());
    assert!(
        own.both().into_iter().any(|ip| Some(ip) == seen_as),
        "{attempt:?}"
    );
    let reached = attempt.reached.map(|a| a.port());
    assert_eq!(reached, Some(TARGET), "{attempt:?}");
}

#[test]
fn every_protocol_family_and_socket_spreads_over_near_and_far_backends() -> Result {
    let mut mesh = Mesh::start(two_nodes())?;
    mesh.serve(&BACKENDS)?;
    mesh.service(&web(0), 3)?;
    let (client, host) = (mesh.pod("client")?, mesh.lab.node("n1")?);
    let places = [
        (client.place(), client.addresses()),
        (host.host(), host.addresses()),
    ];
    for (place, own) in places {
        for vip in vips(0) {
            for options in kinds(150) {
                let attempts = place.get(vip, &options)?;
                assert_even(&by_server(&attempts), &BACKENDS);
                for attempt in &attempts {
                    assert_views(attempt, vip, options.udp, own);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn node_ports_are_reached_from_pods_and_nodes_at_every_node() -> Result {
    let mut mesh = Mesh::start(two_nodes())?;
    mesh.serve(&BACKENDS)?;
    let ports = json!([
        {"name": "tcp", "port": PORT, "targetPort": TARGET, "nodePort": NODE_PORT},
        {"name": "udp", "port": PORT, "targetPort": TARGET, "nodePort": NODE_PORT, "protocol": "UDP"},
    ]);
    let service = web(0).spec("type", json!("NodePort")).spec("ports", ports);
    mesh.service(&service, 3)?;
    let (client, host) = (mesh.pod("client")?, mesh.lab.node("n1")?);
    for place in [client.place(), host.host()] {
        for node in ["n1", "n2"] {
            for at in mesh.lab.node(node)?.addresses().sockets(NODE_PORT) {
                for options in kinds(60) {
                    let attempts = place.get(at, &options)?;
                    assert_even(&by_server(&attempts), &BACKENDS);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn an_ipv6_socket_reaches_an_ipv4_service_by_its_mapped_address() -> Result {
    let mut mesh = Mesh::start(two_nodes())?;
    mesh.serve(&BACKENDS)?;
    mesh.service(&web(0), 3)?;
    let SocketAddr::V4(v4) = vips(0)[0] else {
        anyhow::bail!("the first address is IPv4");
    };
    let mapped = SocketAddr::new(v4.ip().to_ipv6_mapped().into(), PORT);
    for options in kinds(90) {
        let attempts = mesh.pod("client")?.get(mapped, &options)?;
        assert_even(&by_server(&attempts), &BACKENDS);
        for attempt in &attempts {
            if options.udp {
                assert_eq!(attempt.from, Some(mapped), "{attempt:?}");
            }
            if let Some(peer) = attempt.peer {
                assert_eq!(peer, mapped, "{attempt:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_pod_reaches_itself_through_its_service() -> Result {
    let lab = Lab::builder().node("n1").pod(web_pod("alone", "n1"));
    let mut mesh = Mesh::start(lab)?;
    mesh.serve(&["alone"])?;
    mesh.service(&web(0), 1)?;
    let alone = mesh.pod("alone")?;
    for vip in vips(0) {
        for options in kinds(5) {
            let attempts = alone.get(vip, &options)?;
            assert_eq!(by_server(&attempts).get("alone"), Some(&5));
            for attempt in &attempts {
                assert_views(attempt, vip, options.udp, alone.addresses());
            }
        }
    }
    Ok(())
}

#[test]
fn without_backends_clients_are_refused_at_once() -> Result {
    let lab = Lab::builder().node("n1").pod(PodSpec::new("client", "n1"));
    let mesh = Mesh::start(lab)?;
    mesh.service(&web(0), 0)?;
    for place in [
        mesh.pod("client")?.place().clone(),
        mesh.lab.node("n1")?.host().clone(),
    ] {
        for vip in vips(0) {
            for options in kinds(3) {
                for attempt in place.get(vip, &options)? {
                    assert_eq!(
                        attempt.errno.as_deref(),
                        Some("ECONNREFUSED"),
                        "{vip} {options:?}: {attempt:?}"
                    );
                    assert!(attempt.elapsed_us < 1_000_000, "{attempt:?}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn only_services_are_touched() -> Result {
    let mut mesh = Mesh::start(two_nodes())?;
    mesh.serve(&BACKENDS)?;
    mesh.service(&web(0), 3)?;
    let client = mesh.pod("client")?;
    let far = mesh.pod("far")?;
    for to in far.addresses().sockets(TARGET) {
        for options in kinds(5) {
            let attempts = client.get(to, &options)?;
            assert_eq!(by_server(&attempts).get("far"), Some(&5));
            assert!(
                attempts.iter().all(|a| a.from.or(a.peer) == Some(to)),
                "{attempts:?}"
            );
        }
    }
    // Another port of the service's address is nobody's.
    let other = SocketAddr::new(vips(0)[0].ip(), PORT + 1);
    let attempts = client.get(
        other,
        &GetOptions::tcp(1).timeout(Duration::from_millis(500)),
    )?;
    assert!(attempts.iter().all(|a| !a.ok()), "{attempts:?}");
    Ok(())
}

#[test]
fn target_ports_differ_and_have_names() -> Result {
    let lab = Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(web_pod("old", "n1").port("http", 8081))
        .pod(web_pod("new", "n1").port("http", 8082));
    let mut mesh = Mesh::start(lab)?;
    mesh.serve_with(&["old"], &ServeOptions::tcp(8081).and_tcp(9000))?;
    mesh.serve_with(&["new"], &ServeOptions::tcp(8082).and_tcp(9000))?;
    let service = ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(80).named("http").to_named("http"))
        .port(ServicePort::tcp(443).named("admin").to(9000))
        .selector("app", "web");
    mesh.service(&service, 2)?;
    let client = mesh.pod("client")?;
    for ip in vip_addresses(0) {
        let http = client.get(SocketAddr::new(ip, 80), &GetOptions::tcp(60))?;
        assert_even(&by_server(&http), &["old", "new"]);
        for attempt in &http {
            let expected = if attempt.server.as_deref() == Some("old") {
                8081
            } else {
                8082
            };
            assert_eq!(
                attempt.reached.map(|a| a.port()),
                Some(expected),
                "{attempt:?}"
            );
        }
        let admin = client.get(SocketAddr::new(ip, 443), &GetOptions::tcp(60))?;
        assert_even(&by_server(&admin), &["old", "new"]);
        assert!(
            admin
                .iter()
                .all(|a| a.reached.map(|r| r.port()) == Some(9000)),
            "{admin:?}"
        );
    }
    Ok(())
}

#[test]
fn headless_and_external_name_services_are_left_alone() -> Result {
    let mut mesh = Mesh::start(two_nodes())?;
    mesh.serve(&BACKENDS)?;
    let headless = ServiceManifest::new("headless")
        .headless()
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "web");
    let external = ServiceManifest::new("external").external_name("example.org");
    mesh.apply("headless", &headless.yaml())?;
    mesh.apply("external", &external.yaml())?;
    mesh.service(&web(0), 3)?;
    let services = mesh.weft("n1")?.cli_json(&["services"])?;
    let names: Vec<&str> = services
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|s| s.get("service")?.as_str())
        .collect();
    assert!(names.iter().all(|name| *name == "default/web"), "{names:?}");
    let status = mesh.status("n1")?;
    assert_eq!(status["problems"], serde_json::json!([]), "{status:#}");
    let pods = mesh
        .pod("client")?
        .get(mesh.pod("far")?.socket_v4(TARGET), &GetOptions::tcp(1))?;
    assert!(pods.iter().all(Attempt::ok), "{pods:?}");
    Ok(())
}

#[test]
fn external_ips_are_service_addresses_too() -> Result {
    let mut mesh = Mesh::start(two_nodes())?;
    mesh.serve(&BACKENDS)?;
    let service = web(0).spec("externalIPs", serde_json::json!(["198.51.100.7"]));
    mesh.service(&service, 3)?;
    let to = "198.51.100.7:80".parse()?;
    for options in kinds(60) {
        let attempts = mesh.pod("client")?.get(to, &options)?;
        assert_even(&by_server(&attempts), &BACKENDS);
    }
    Ok(())
}

#[test]
fn changed_added_and_removed_manifests_take_effect() -> Result {
    let mut mesh = Mesh::start(two_nodes())?;
    mesh.serve(&BACKENDS)?;
    mesh.service(&web(0), 3)?;
    let client = mesh.pod("client")?;
    let lands_on = |vip, expected: &[&str]| -> Result {
        let attempts = client.get(vip, &GetOptions::tcp(60))?;
        assert_even(&by_server(&attempts), expected);
        Ok(())
    };
    lands_on(vips(0)[0], &BACKENDS)?;

    // A pod more, in a file of its own.
    let newcomer = mesh.lab.add_pod(web_pod("newcomer", "n1"))?;
    mesh.serve(&["newcomer"])?;
    mesh.apply("pod-newcomer", &newcomer.manifest().yaml())?;
    mesh.wait_ready_backends("default/web", 4)?;
    mesh.wait_judged("newcomer", "n1")?;
    lands_on(vips(0)[0], &["near", "far", "farther", "newcomer"])?;

    // A pod that is not ready any more.
    mesh.apply("pod-newcomer", &newcomer.manifest().ready(false).yaml())?;
    mesh.wait_ready_backends("default/web", 3)?;
    lands_on(vips(0)[1], &BACKENDS)?;

    // The service moves to another address.
    mesh.service(&web(1), 3)?;
    eventually(LONG, || {
        let old = client.get(
            vips(0)[0],
            &GetOptions::tcp(1).timeout(Duration::from_millis(300)),
        )?;
        ensure!(
            old.iter().all(|a| !a.ok()),
            "the old address still answers: {old:?}"
        );
        Ok(())
    })?;
    lands_on(vips(1)[0], &BACKENDS)?;

    // And is gone.
    mesh.lab.manifests().remove("service-default-web")?;
    mesh.wait_gone("default/web")?;
    let gone = client.get(
        vips(1)[0],
        &GetOptions::tcp(1).timeout(Duration::from_millis(300)),
    )?;
    assert!(gone.iter().all(|a| !a.ok()), "{gone:?}");
    let program = mesh.weft("n1")?.process().stderr();
    ensure!(!program.contains("panicked"), "{program}");
    Ok(())
}

#[test]
fn workloads_and_backends_are_listed() -> Result {
    let mut mesh = Mesh::start(two_nodes())?;
    mesh.service(&web(0), 3)?;
    let weft = mesh.weft("n1")?;
    let workloads = weft.cli_json(&["workloads"])?;
    let near = workloads
        .as_array()
        .into_iter()
        .flatten()
        .find(|w| w["name"] == "near")
        .context("no workload near")?;
    assert_eq!(near["node"], "n1");
    assert_eq!(near["local"], true);
    assert_eq!(
        near["spiffeId"],
        "spiffe://cluster.local/ns/default/sa/default"
    );
    let backends = weft.cli_json(&["backends", "default/web"])?;
    let rows: Vec<_> = backends.as_array().into_iter().flatten().collect();
    assert!(
        rows.iter()
            .any(|b| b["workload"].as_str().is_some_and(|w| w.contains("far"))),
        "{rows:?}"
    );
    assert!(
        rows.iter()
            .all(|b| b["health"] == "healthy" && b["selected"] == true),
        "{rows:?}"
    );
    let table = weft.cli(&["services", "default/web"])?.success()?.stdout;
    assert!(
        table.contains("default/web") && table.contains("80/tcp"),
        "{table}"
    );
    let nothing = weft.cli(&["services", "default/nothing"])?;
    assert_eq!(nothing.status.code(), Some(1), "{}", nothing.stdout);
    Ok(())
}
