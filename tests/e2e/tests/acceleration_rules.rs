//! What holds for all connections holds for accelerated ones, too: policy, timeouts, accounts, and that the agent may die.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use weft_e2e::accel::Pair;
use weft_e2e::mesh::{PORT, TARGET, ports_of, vip_addresses, vips};
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::weft;

const ISOLATED: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: nobody, namespace: default}
spec: {podSelector: {}, policyTypes: [Ingress]}
";
/// What `half` sends each way.
const HALF: u64 = 200_000;

fn traffic_policy(spec: &Value) -> String {
    let mut spec = spec.clone();
    spec["targetRefs"] = json!([{"kind": "Service", "name": "web"}]);
    json!({
        "apiVersion": "weft.io/v1alpha1",
        "kind": "TrafficPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
    })
    .to_string()
}

/// A service with the server behind it.
fn serve(pair: &Pair) -> Result {
    let mut server = pair.mesh.pod("server")?.manifest().value();
    server["metadata"]["labels"] = json!({"app": "web"});
    pair.mesh.apply("pod-server", &server.to_string())?;
    let service = ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "web");
    pair.mesh.service(&service, 1)
}

/// The last closed connection of the client to this port.
fn closed(pair: &mut Pair, port: u16) -> Result<Value> {
    eventually(LONG, || {
        let args = ["flows", "--from", "default/client", "-o", "json"];
        let flows: Vec<Value> = pair.mesh.weft("n1")?.cli(&args)?.success()?.json_lines()?;
        let found = flows
            .into_iter()
            .rfind(|f| f["event"] == "close" && f["destination"]["port"] == port);
        found.with_context(|| format!("no close at port {port}"))
    })
}

#[test]
fn flows_tell_of_accelerated_bytes() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    serve(&pair)?;
    let server = pair.mesh.pod("server")?;
    let mut ways = Vec::new();
    for at in [server.socket_v4(pair.port()), server.socket_v6(pair.port())] {
        pair.run_at("half", at)?;
        ways.push(at.port());
    }
    pair.run_via("half", server.socket_v4(TARGET), vips(0)[0])?;
    ways.push(TARGET);
    for port in ways {
        let flow = closed(&mut pair, port)?;
        assert_eq!(flow["path"], "accelerated", "{flow:#}");
        for way in ["sent", "received"] {
            let bytes = flow["bytes"][way].as_u64().context("no bytes")?;
            // And the headers of what went through TCP: at least the handshake and the good-bye.
            ensure!((HALF..HALF + 20_000).contains(&bytes), "{way}: {flow:#}");
        }
    }
    let flow = closed(&mut pair, TARGET)?;
    assert_eq!(flow["service"], "default/web", "{flow:#}");
    Ok(())
}

#[test]
fn a_connection_that_policy_forbids_is_closed() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    let server = pair.mesh.pod("server")?.socket_v4(pair.port());
    let before = pair.count("accelerated_bytes")?;
    let ends = pair.begin("ended", server, server)?;
    eventually(LONG, || {
        ensure!(pair.count("accelerated_bytes")? > before + 100);
        Ok(())
    })?;
    pair.mesh.apply("isolated", ISOLATED)?;
    Pair::finish("ended", ends)?;
    let flow = closed(&mut pair, server.port())?;
    assert_eq!(
        (&flow["path"], &flow["reason"]),
        (&json!("accelerated"), &json!("revoked")),
        "{flow:#}"
    );
    Ok(())
}

#[test]
fn silence_is_what_no_socket_has_sent() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    serve(&pair)?;
    let policy = traffic_policy(&json!({"timeouts": {"idle": "2s"}}));
    pair.mesh.apply("policy", &policy)?;
    let weft = pair.mesh.weft("n1")?;
    eventually(LONG, || {
        let ports = ports_of(weft, "default/web")?;
        ensure!(!ports[0]["limits"].is_null(), "no timeouts yet");
        Ok(())
    })?;
    let server = pair.mesh.pod("server")?.socket_v4(TARGET);
    let before = pair.count("accelerated_messages")?;
    // It says something all the time, if not to any interface.
    pair.run_via("busy", server, vips(0)[0])?;
    ensure!(pair.count("accelerated_messages")? > before + 100);
    pair.run_via("silent", server, vips(0)[0])
}

#[test]
fn agents_die_while_pairs_come_and_go() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    let before = pair.count("accelerated_pairs")?;
    let server = pair.mesh.pod("server")?.socket_v4(pair.port());
    let ends = pair.begin("short", server, server)?;
    for kill in 0..5 {
        sleep(Duration::from_millis(300 * (kill % 3)));
        pair.mesh.weft("n1")?.restart()?;
        pair.mesh.weft("n1")?.wait_ready(LONG)?;
    }
    Pair::finish("short", ends)?;
    let pairs = pair.count("accelerated_pairs")? - before;
    ensure!(pairs > 9_000, "{pairs} pairs of 10000 connections");
    // All places were given back.
    pair.run("ping")
}

#[test]
fn pairs_without_a_place_stay_on_tcp() -> Result {
    let mut pair = Pair::start(&["--map-size", "accel_pairs=4"])?;
    pair.wait_accelerated()?;
    pair.run("crowd")?;
    ensure!(pair.count("acceleration_full")? > 0, "there was room");
    let before = pair.count("accelerated_bytes")?;
    pair.run("ping")?;
    ensure!(
        pair.count("accelerated_bytes")? > before,
        "no place was given back"
    );
    Ok(())
}

#[test]
fn what_was_written_before_the_connection_stood_comes_first() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    // 3: TCP Fast Open for clients and servers. The first connection asks for a cookie, the others send one.
    for pod in ["client", "server"] {
        let set = "echo 3 >/proc/sys/net/ipv4/tcp_fastopen";
        let pod = pair.mesh.pod(pod)?;
        pod.command("sh").args(["-c", set]).run(LONG)?.success()?;
    }
    pair.run("early")
}

#[test]
fn owners_may_opt_out() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    serve(&pair)?;
    let server = pair.mesh.pod("server")?.socket_v4(TARGET);
    let vip = vips(0)[0];
    let policy = traffic_policy(&json!({"acceleration": "Disabled"}));
    pair.mesh.apply("policy", &policy)?;
    let mut none_via = |to| {
        eventually(LONG, || {
            let before = pair.count("accelerated_pairs")?;
            pair.run_via("hello", server, to)?;
            ensure!(
                pair.count("accelerated_pairs")? == before,
                "{to}: accelerated"
            );
            Ok(())
        })
    };
    none_via(vip)?;
    let before = pair.count("accelerated_pairs")?;
    pair.run("hello")?;
    ensure!(
        pair.count("accelerated_pairs")? > before,
        "only the service has opted out"
    );

    let mut client = pair.mesh.pod("client")?.manifest().value();
    client["metadata"]["annotations"] = json!({"weft.io/acceleration": "off"});
    pair.mesh.apply("pod-client", &client.to_string())?;
    eventually(LONG, || {
        let before = pair.count("accelerated_pairs")?;
        pair.run("hello")?;
        ensure!(
            pair.count("accelerated_pairs")? == before,
            "the pod is accelerated"
        );
        Ok(())
    })
}

#[test]
fn what_is_accelerated_goes_on_over_tcp_when_weft_is_taken_out() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    let server = pair.mesh.pod("server")?;
    let before = pair.count("accelerated_bytes")?;
    let mut ends = Vec::new();
    for scenario in ["busy", "late-reader"] {
        let at = server.socket_v4(pair.port());
        ends.push((scenario, pair.begin(scenario, at, at)?));
    }
    eventually(LONG, || {
        ensure!(pair.count("accelerated_bytes")? > before + 150_000);
        Ok(())
    })?;
    pair.mesh.weft("n1")?.stop()?;
    weft::cleanup(&pair.mesh.lab.node("n1")?)?.success()?;
    for (scenario, both) in ends {
        Pair::finish(scenario, both)?;
    }
    Ok(())
}

#[test]
fn off_leaves_no_trace() -> Result {
    let mut pair = Pair::start(&["--acceleration", "off"])?;
    pair.run("hello")?;
    ensure!(pair.count("accelerated_pairs")? == 0);
    let bpffs = pair.mesh.lab.node("n1")?.bpffs().to_owned();
    let pins = fs::read_dir(&bpffs)?
        .flatten()
        .flat_map(|abi| ["maps", "links"].map(|dir| abi.path().join(dir)))
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flatten()
        .flatten()
        .map(|pin| pin.file_name().to_string_lossy().into_owned())
        .collect::<Vec<_>>();
    ensure!(pins.iter().any(|pin| pin == "ct"), "{pins:?}");
    ensure!(!pins.iter().any(|pin| pin.contains("accel")), "{pins:?}");
    Ok(())
}
