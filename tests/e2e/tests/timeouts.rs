//! Timeouts of a TrafficPolicy: both ends of a connection learn of them, on one node and across two, and it is told.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use weft_e2e::counters::established;
use weft_e2e::mesh::{PORT, TARGET, ports_of, vip_addresses, vips};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::probe::Held;
use weft_lab::{GetOptions, Hold, Lab, PodSpec};

const CLIENTS: [(&str, &str); 2] = [("near", "n1"), ("far", "n2")];
/// Of idle and maxDuration.
const LIMIT: Duration = Duration::from_secs(2);
/// A connection that nothing closes is held longer than any limit, on a busy machine too.
const HELD_FOR: Duration = Duration::from_secs(20);
/// The table of connections is gone over once a second, and the machine may be busy.
const GRACE: Duration = Duration::from_secs(8);

/// The server's end is closed with the client's. Much later it would be by itself, when its connection is forgotten and its packets pass.
const OTHER_END: Duration = Duration::from_secs(5);

/// A service with one server on n1, and these timeouts in force on both nodes.
fn start(timeouts: &Value) -> Result<Mesh> {
    let mut lab = Lab::builder().node("n1").node("n2");
    for (name, node) in CLIENTS {
        lab = lab.pod(PodSpec::new(name, node));
    }
    let mut mesh = Mesh::start(lab.pod(PodSpec::new("server", "n1").label("app", "web")))?;
    mesh.serve(&["server"])?;
    let policy = json!({
        "apiVersion": "weft.io/v1alpha1",
        "kind": "TrafficPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"targetRefs": [{"kind": "Service", "name": "web"}], "timeouts": timeouts},
    });
    mesh.apply("policy", &policy.to_string())?;
    let service = ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "web");
    mesh.service(&service, 1)?;
    for (_, node) in CLIENTS {
        let weft = mesh.weft(node)?;
        eventually(LONG, || {
            let ports = ports_of(weft, "default/web")?;
            let limits = &ports.first().context("no service")?["limits"];
            ensure!(!limits.is_null(), "no timeouts on {node}: {ports:#?}");
            Ok(())
        })?;
    }
    Ok(mesh)
}

/// Waits until `node` tells that connections of `client` expired for this reason, in both families.
fn told(mesh: &mut Mesh, client: &str, node: &str, reason: &str) -> Result {
    let from = format!("default/{client}");
    let args = ["flows", "--from", &from, "--last", "1000", "-o", "json"];
    let addresses = mesh.pod(client)?.addresses().both();
    let weft = mesh.weft(node)?;
    eventually(LONG, || {
        let flows: Vec<Value> = weft.cli(&args)?.success()?.json_lines()?;
        for address in addresses {
            let found = flows.iter().any(|flow| {
                flow["event"] == "expired"
                    && flow["reason"] == reason
                    && flow["service"] == "default/web"
                    && flow["source"]["address"] == address.to_string()
            });
            ensure!(found, "{node}: nothing of {address}: {flows:#?}");
        }
        Ok(())
    })
}

/// One connection from each client over each family, silent or with a request every few milliseconds.
fn hold_all(mesh: &Mesh, busy: bool, longest: Duration) -> Result<Vec<(String, Hold)>> {
    let mut holds = Vec::new();
    for (name, _) in CLIENTS {
        let client = mesh.pod(name)?;
        for vip in vips(0) {
            let hold = if busy {
                client.hold_busy(vip, longest)?
            } else {
                client.hold(vip, false, longest)?
            };
            let kind = if busy { "busy" } else { "silent" };
            holds.push((format!("{kind} {name} to {vip}"), hold));
        }
    }
    Ok(holds)
}

/// That it was closed with an error, not before its time and not long after.
fn assert_closed(what: &str, held: &Held) -> Result {
    let broken = held.broken_ns.with_context(|| format!("{what} lives"))?;
    let lived = Duration::from_nanos(broken - held.since_ns);
    println!("{what}: {:?} after {lived:?}", held.errno);
    let errno = held.errno.as_deref().unwrap_or_default();
    let errors = ["ECONNABORTED", "ECONNRESET", "ETIMEDOUT"];
    assert!(errors.contains(&errno), "{what}: {errno}");
    // It began before its first answer came.
    let age = lived + Duration::from_micros(held.first.elapsed_us);
    assert!(age >= LIMIT.mul_f64(0.95), "{what}: {age:?}");
    assert!(lived < LIMIT + GRACE, "{what}: {lived:?}");
    Ok(())
}

/// That the server has no connection left either.
fn closed_at_the_server(mesh: &Mesh) -> Result {
    let (server, since) = (mesh.pod("server")?, Instant::now());
    eventually(OTHER_END, || {
        let left = established(&server, TARGET)?;
        ensure!(left == 0, "{left} connections are left at the server");
        Ok(())
    })?;
    println!("at the server {:?} later", since.elapsed());
    Ok(())
}

#[test]
fn a_connect_to_silence_fails_in_time_across_nodes() -> Result {
    const CONNECT: Duration = Duration::from_secs(1);
    let mesh = start(&json!({"connect": "1s"}))?;
    let server = mesh.pod("server")?;
    for (name, _) in CLIENTS {
        let client = mesh.pod(name)?;
        let (v4, v6) = (client.addresses().v4, client.addresses().v6);
        server.netns().ip(&format!(
            "route add blackhole {v4}/32\nroute add blackhole {v6}/128\n"
        ))?;
        for vip in vips(0) {
            let options = GetOptions::tcp(1).timeout(LONG);
            let attempts = client.get(vip, &options)?;
            let took = Duration::from_micros(attempts[0].elapsed_us);
            println!("{name} to {vip}: {took:?}");
            assert_eq!(attempts[0].errno.as_deref(), Some("ETIMEDOUT"));
            let bounds = CONNECT.mul_f64(0.9)..CONNECT.mul_f64(1.1) + CONNECT;
            assert!(bounds.contains(&took), "{name} to {vip}: {took:?}");
        }
    }
    Ok(())
}

#[test]
fn idle_connections_are_closed_and_busy_ones_are_not() -> Result {
    let mut mesh = start(&json!({"idle": "2s"}))?;
    let busy = hold_all(&mesh, true, LIMIT * 3)?;
    for (what, hold) in hold_all(&mesh, false, HELD_FOR)? {
        assert_closed(&what, &hold.finish()?)?;
    }
    for (what, hold) in busy {
        let held = hold.finish()?;
        assert!(!held.broken, "{what}: {held:?}");
    }
    closed_at_the_server(&mesh)?;
    for (name, node) in CLIENTS {
        told(&mut mesh, name, node, "idle-timeout")?;
    }
    Ok(())
}

#[test]
fn connections_are_closed_at_their_age_however_busy() -> Result {
    let mut mesh = start(&json!({"maxDuration": "2s"}))?;
    let mut holds = hold_all(&mesh, true, HELD_FOR)?;
    holds.extend(hold_all(&mesh, false, HELD_FOR)?);
    for (what, hold) in holds {
        assert_closed(&what, &hold.finish()?)?;
    }
    closed_at_the_server(&mesh)?;
    for (name, node) in CLIENTS {
        told(&mut mesh, name, node, "max-duration")?;
    }
    Ok(())
}
