//! The least that must hold on every supported kernel: `make test-kernels` runs this file on each.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use weft_e2e::accel::Pair;
use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::stats::{assert_even, by_server};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{GetOptions, Lab, Pod, PodSpec, WeftOptions};

const BACKENDS: [&str; 3] = ["near", "far", "farther"];

fn web() -> ServiceManifest {
    ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).named("tcp").to(TARGET))
        .port(ServicePort::udp(PORT).named("udp").to(TARGET))
        .selector("app", "web")
}

fn started() -> Result<Mesh> {
    let backend = |name: &str, node: &str| PodSpec::new(name, node).label("app", "web");
    let lab = Lab::builder()
        .node("n1")
        .node("n2")
        .pod(PodSpec::new("client", "n1"))
        .pod(backend("near", "n1"))
        .pod(backend("far", "n2"))
        .pod(backend("farther", "n2"));
    let mut mesh = Mesh::start(lab)?;
    mesh.serve(&BACKENDS)?;
    mesh.service(&web(), 3)?;
    Ok(mesh)
}

#[test]
fn every_program_is_attached() -> Result {
    let mesh = started()?;
    let status = mesh.status("n1")?;
    let programs = status["programs"].as_array().cloned().unwrap_or_default();
    ensure!(!programs.is_empty(), "{status:#}");
    assert!(
        programs.iter().all(|p| p["attached"] == true),
        "{programs:#?}"
    );
    assert_eq!(status["ready"], true);
    Ok(())
}

#[test]
fn tcp_and_udp_over_both_families_are_balanced() -> Result {
    let mesh = started()?;
    for place in [
        mesh.pod("client")?.place().clone(),
        mesh.lab.node("n1")?.host().clone(),
    ] {
        for vip in vips(0) {
            for options in [
                GetOptions::tcp(60),
                GetOptions::udp(60),
                GetOptions::udp_connected(60),
            ] {
                let attempts = place.get(vip, &options)?;
                assert_even(&by_server(&attempts), &BACKENDS);
                let shown = attempts
                    .iter()
                    .filter_map(|a| if options.udp { a.from } else { a.peer });
                for address in shown {
                    assert_eq!(address, vip);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn without_backends_connections_are_refused() -> Result {
    let mesh = Mesh::start(Lab::builder().node("n1").pod(PodSpec::new("client", "n1")))?;
    mesh.service(&web(), 0)?;
    for vip in vips(0) {
        for options in [
            GetOptions::tcp(2),
            GetOptions::udp(2),
            GetOptions::udp_connected(2),
        ] {
            for attempt in mesh.pod("client")?.get(vip, &options)? {
                assert_eq!(
                    attempt.errno.as_deref(),
                    Some("ECONNREFUSED"),
                    "{vip} {options:?}: {attempt:?}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn connections_of_a_removed_backend_are_closed() -> Result {
    let mesh = started()?;
    for name in ["near", "farther"] {
        mesh.lab.manifests().remove(&format!("pod-{name}"))?;
    }
    mesh.wait_ready_backends("default/web", 1)?;
    let places = [
        mesh.pod("client")?.place().clone(),
        mesh.lab.node("n2")?.host().clone(),
    ];
    let mut holds = Vec::new();
    for place in &places {
        for vip in vips(0) {
            for udp in [false, true] {
                holds.push(place.hold(vip, udp, Duration::from_secs(30))?);
            }
        }
    }
    mesh.lab.manifests().remove("pod-far")?;
    for hold in holds {
        let held = hold.finish()?;
        assert!(held.broken, "{held:?}");
        let errno = held.errno.as_deref();
        assert!(
            matches!(errno, Some("ECONNABORTED" | "ECONNRESET")),
            "{held:?}"
        );
    }
    Ok(())
}

#[test]
fn a_killed_agent_leaves_traffic_alone_and_its_successor_takes_over() -> Result {
    let mut mesh = started()?;
    let client = mesh.pod("client")?;
    let held = client.hold(vips(0)[0], false, Duration::from_secs(20))?;
    mesh.weft("n1")?.kill9();
    assert_even(
        &by_server(&client.get(vips(0)[0], &GetOptions::tcp(60))?),
        &BACKENDS,
    );
    mesh.weft("n1")?.restart()?;
    mesh.weft("n1")?.wait_ready(LONG)?;
    let other = ServiceManifest::new("other")
        .cluster_ips(vip_addresses(1))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "web");
    mesh.service(&other, 3)?;
    eventually(LONG, || {
        let attempts = client.get(vips(1)[1], &GetOptions::tcp(1))?;
        ensure!(attempts.iter().all(|a| a.ok()), "{attempts:?}");
        Ok(())
    })?;
    assert!(!held.finish()?.broken);
    Ok(())
}

const LETS_FRIENDS_IN: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friends-only, namespace: default}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {matchLabels: {app: friend}}}]
      ports: [{port: 8080}]
";

/// Whether this client's connections to the server come about, over IPv4 and over IPv6.
fn reaches(client: &Pod, server: &Pod) -> Result<[bool; 2]> {
    let options = GetOptions::tcp(1).timeout(Duration::from_secs(2));
    let asks = |to| -> Result<bool> {
        let attempts = client.get(to, &options)?;
        Ok(attempts.first().context("no attempt")?.ok())
    };
    Ok([
        asks(server.socket_v4(TARGET))?,
        asks(server.socket_v6(TARGET))?,
    ])
}

#[test]
fn a_policy_lets_one_in_and_refuses_another() -> Result {
    let pod = |name: &str, app: &str| PodSpec::new(name, "n1").label("app", app);
    let lab = Lab::builder()
        .node("n1")
        .pod(pod("server", "web"))
        .pod(pod("friend", "friend"))
        .pod(pod("stranger", "stranger"));
    let mut mesh = Mesh::start(lab)?;
    mesh.serve(&["server"])?;
    let server = mesh.pod("server")?;
    let (friend, stranger) = (mesh.pod("friend")?, mesh.pod("stranger")?);
    assert_eq!(reaches(&friend, &server)?, [true; 2]);
    assert_eq!(reaches(&stranger, &server)?, [true; 2]);

    mesh.apply("friends-only", LETS_FRIENDS_IN)?;
    eventually(LONG, || {
        let reached = reaches(&stranger, &server)?;
        ensure!(reached == [false; 2], "let in: {reached:?}");
        Ok(())
    })?;
    assert_eq!(reaches(&friend, &server)?, [true; 2]);
    let (v4, v6) = (server.addresses().v4, server.addresses().v6);
    let weft = mesh.weft("n1")?;
    eventually(LONG, || {
        // Asked again: of the first refusals, one may have been a connection that the change ended.
        ensure!(reaches(&stranger, &server)? == [false; 2], "let in again");
        let told = weft.cli(&["flows", "--verdict", "denied", "-o", "json"])?;
        let told: Vec<Value> = told.success()?.json_lines()?;
        for address in [v4.to_string(), v6.to_string()] {
            let is_it = |flow: &Value| {
                flow["source"]["pod"] == "stranger"
                    && flow["destination"]["address"] == address.as_str()
                    && flow["policy"] == "NetworkPolicy default/friends-only"
            };
            ensure!(told.iter().any(is_it), "nothing of {address}: {told:#?}");
        }
        ensure!(
            told.iter().all(|flow| flow["source"]["pod"] != "friend"),
            "the friend was refused: {told:#?}"
        );
        Ok(())
    })?;

    mesh.lab.manifests().remove("friends-only")?;
    eventually(LONG, || {
        let reached = reaches(&stranger, &server)?;
        ensure!(reached == [true; 2], "still refused: {reached:?}");
        Ok(())
    })?;
    assert_eq!(reaches(&friend, &server)?, [true; 2]);
    Ok(())
}

/// The probe's sockets block: `eager`.
#[test]
fn messages_go_from_socket_to_socket_where_the_kernel_counts_them() -> Result {
    let mut pair = Pair::start(&["--acceleration", "eager"])?;
    pair.mesh.serve(&["server"])?;
    let (client, server) = (pair.mesh.pod("client")?, pair.mesh.pod("server")?);
    let status = pair.mesh.status("n1")?;
    let hindered = status["warnings"].to_string().contains("acceleration");
    eventually(LONG, || {
        let before = pair.count("accelerated_bytes")?;
        for to in [server.socket_v4(TARGET), server.socket_v6(TARGET)] {
            let answers = client.get(to, &GetOptions::tcp(5))?;
            ensure!(answers.iter().all(|a| a.ok()), "{answers:#?}");
        }
        let more = pair.count("accelerated_bytes")? - before;
        ensure!(
            (more > 0) != hindered,
            "{more} bytes; {}",
            status["warnings"]
        );
        Ok(())
    })
}

/// The machine outside is no node that anybody knows of.
#[test]
fn clients_outside_reach_node_ports() -> Result {
    const NODE_PORT: u16 = 30_080;
    let backend = |name: &str, node: &str| PodSpec::new(name, node).label("app", "web");
    let lab = Lab::builder()
        .node("n1")
        .node("n2")
        .node("outside")
        .pod(backend("near", "n1"))
        .pod(backend("far", "n2"))
        .pod(backend("farther", "n2"));
    let mut mesh = Mesh::start_beside(lab, &["outside"], &WeftOptions::default())?;
    mesh.serve(&BACKENDS)?;
    let ports = json!([
        {"name": "tcp", "port": PORT, "targetPort": TARGET, "nodePort": NODE_PORT},
        {"name": "udp", "port": PORT, "targetPort": TARGET, "nodePort": NODE_PORT, "protocol": "UDP"},
    ]);
    let service = web().spec("type", json!("NodePort")).spec("ports", ports);
    mesh.service(&service, 3)?;
    let client = mesh.lab.node("outside")?.host().clone();
    for at in mesh.lab.node("n1")?.addresses().sockets(NODE_PORT) {
        for options in [GetOptions::tcp(60), GetOptions::udp(60)] {
            let attempts = client.get(at, &options.timeout(LONG))?;
            assert_even(&by_server(&attempts), &BACKENDS);
        }
        for options in [
            GetOptions::tcp(6).size(20_000),
            GetOptions::udp(6).size(4_000),
        ] {
            let attempts = client.get(at, &options.timeout(LONG))?;
            ensure!(attempts.iter().all(|a| a.ok()), "{at}: {attempts:?}");
        }
    }
    Ok(())
}
