//! Timeouts, limits and outlier ejection of a TrafficPolicy.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use weft_e2e::mesh::{PORT, TARGET, ports_of, vip_addresses, vips};
use weft_e2e::stats::by_server;
use weft_e2e::{Mesh, Result, eventually, wait::LONG};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{GetOptions, Lab, LoadOptions, Pod, PodSpec, ServeOptions};

fn mesh(backends: &[&str]) -> Result<Mesh> {
    let lab = Lab::builder().node("n1").pod(PodSpec::new("client", "n1"));
    let lab = backends.iter().fold(lab, |lab, name| {
        lab.pod(PodSpec::new(*name, "n1").label("app", "web"))
    });
    let mesh = Mesh::start(lab)?;
    let web = ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "web");
    mesh.service(&web, u64::try_from(backends.len())?)?;
    Ok(mesh)
}

/// What `weft services` says of the limits of `web`.
fn limits(mesh: &mut Mesh) -> Result<Value> {
    let ports = ports_of(mesh.weft("n1")?, "default/web")?;
    Ok(ports.first().context("no service")?["limits"].clone())
}

fn number(mesh: &mut Mesh, name: &str) -> Result<u64> {
    let limits = limits(mesh)?;
    limits[name].as_u64().with_context(|| limits.to_string())
}

/// Puts a TrafficPolicy in force; `expected` is what `weft services` shows of it.
fn apply(mesh: &mut Mesh, spec: Value, expected: &[(&str, u64)]) -> Result {
    let mut policy = json!({
        "apiVersion": "weft.io/v1alpha1",
        "kind": "TrafficPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"targetRefs": [{"kind": "Service", "name": "web"}]},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        policy["spec"][key] = value.clone();
    }
    mesh.apply("policy", &policy.to_string())?;
    eventually(LONG, || {
        let limits = limits(mesh)?;
        for (name, value) in expected {
            ensure!(limits[name] == *value, "{name} is not {value}: {limits}");
        }
        Ok(())
    })
}

/// From now on `pod` answers `client` nothing: its answers have no way.
fn silence(pod: &Pod, client: &Pod) -> Result {
    let (v4, v6) = (client.addresses().v4, client.addresses().v6);
    let routes = format!("route add blackhole {v4}/32\nroute add blackhole {v6}/128\n");
    Ok(pod.netns().ip(&routes)?)
}

#[test]
fn a_connect_to_silence_fails_when_it_was_said_to() -> Result {
    let mut mesh = mesh(&["mute"])?;
    mesh.serve(&["mute"])?;
    let client = mesh.pod("client")?;
    silence(&mesh.pod("mute")?, &client)?;
    let mut failures = 0;
    for (text, millis) in [("300ms", 300), ("1s", 1_000), ("3s", 3_000)] {
        let spec = json!({"timeouts": {"connect": text}});
        apply(&mut mesh, spec, &[("connectTimeoutMs", millis)])?;
        for vip in vips(0) {
            let options = GetOptions::tcp(1).timeout(Duration::from_secs(10));
            let attempts = client.get(vip, &options)?;
            let took = attempts[0].elapsed_us / 1_000;
            println!("{text} to {vip}: {took} ms");
            assert_eq!(attempts[0].errno.as_deref(), Some("ETIMEDOUT"));
            let bounds = millis * 9 / 10..=millis * 11 / 10;
            assert!(bounds.contains(&took), "{text}: {took} ms");
            failures += 1;
        }
        assert_eq!(number(&mut mesh, "timedOut")?, failures);
    }
    Ok(())
}

#[test]
fn a_timeout_ends_with_the_handshake() -> Result {
    let mut mesh = mesh(&["slow"])?;
    let slow = ServeOptions::tcp(TARGET).delay(Duration::from_secs(1));
    mesh.serve_with(&["slow"], &slow)?;
    let spec = json!({"timeouts": {"connect": "200ms"}});
    apply(&mut mesh, spec, &[("connectTimeoutMs", 200)])?;
    for vip in vips(0) {
        let attempts = mesh.pod("client")?.get(vip, &GetOptions::tcp(2))?;
        assert!(attempts.iter().all(|a| a.ok()), "{attempts:?}");
    }
    assert_eq!(number(&mut mesh, "timedOut")?, 0);
    // Taken back, nothing is left of it.
    mesh.lab.manifests().remove("policy")?;
    eventually(LONG, || {
        let limits = limits(&mut mesh)?;
        ensure!(limits.is_null(), "{limits}");
        Ok(())
    })
}

#[test]
fn a_full_service_refuses_at_once_and_forgets_nobody() -> Result {
    let mut mesh = mesh(&["a"])?;
    mesh.serve(&["a"])?;
    let spec = json!({"limits": {"maxConnections": 3}});
    apply(&mut mesh, spec, &[("maxConnections", 3)])?;
    let (client, vip) = (mesh.pod("client")?, vips(0)[0]);
    let mut holds = Vec::new();
    for _ in 0..3 {
        holds.push(client.hold(vip, false, Duration::from_secs(60))?);
    }
    assert_eq!(number(&mut mesh, "open")?, 3);
    let refused = client.get(vip, &GetOptions::tcp(5))?;
    for attempt in &refused {
        assert_eq!(attempt.errno.as_deref(), Some("ECONNREFUSED"));
        assert!(attempt.elapsed_us < 100_000, "at once: {attempt:?}");
    }
    assert_eq!(number(&mut mesh, "limited")?, 5);
    // Its process is killed.
    drop(holds.pop());
    eventually(LONG, || {
        let open = number(&mut mesh, "open")?;
        ensure!(open == 2, "{open} open");
        Ok(())
    })?;
    // One at a time fits, each once the one before is closed at both ends.
    for _ in 0..5 {
        eventually(LONG, || {
            let attempts = client.get(vip, &GetOptions::tcp(1))?;
            ensure!(attempts[0].ok(), "{attempts:?}");
            Ok(())
        })?;
    }
    drop(holds);
    eventually(LONG, || {
        let open = number(&mut mesh, "open")?;
        ensure!(open == 0, "{open} open");
        Ok(())
    })
}

#[test]
fn connections_come_at_the_rate_that_was_set() -> Result {
    const RATE: u32 = 50;
    let mut mesh = mesh(&["a"])?;
    mesh.serve(&["a"])?;
    let spec = json!({"limits": {"connectionsPerSecond": RATE}});
    apply(&mut mesh, spec, &[("connectionsPerSecond", RATE.into())])?;
    let load = LoadOptions::connects(400, Duration::from_secs(6));
    let summary = mesh.pod("client")?.load(vips(0)[0], &load)?.finish()?;
    let answered = (summary.requests - summary.failed) as f64;
    // A full bucket to begin with.
    let due = f64::from(RATE) * (1.0 + summary.elapsed_ms as f64 / 1_000.0);
    println!("{answered} of {} went in, {due} were due", summary.requests);
    // Never more; less when a busy machine holds the client up while the bucket is full.
    assert!((0.5..=1.01).contains(&(answered / due)), "{summary:?}");
    assert_eq!(summary.errors.get("ECONNREFUSED"), Some(&summary.failed));
    assert_eq!(number(&mut mesh, "rateLimited")?, summary.failed);
    Ok(())
}

fn outlier() -> Value {
    json!({
        "loadBalancing": {"policy": "RoundRobin"},
        "outlier": {"consecutiveFailures": 3, "baseEjection": "2s", "maxEjectedPercent": 50},
    })
}

/// Asks until `bad` is ejected, then sees that nobody is sent there, and that it comes back.
fn is_ejected_and_returns(mesh: &mut Mesh, good: &str) -> Result {
    let expected = [("consecutiveFailures", 3), ("baseEjectionMs", 2_000)];
    apply(mesh, outlier(), &expected)?;
    let (client, vip) = (mesh.pod("client")?, vips(0)[0]);
    let attempts = client.get(vip, &GetOptions::tcp(6))?;
    assert_eq!(attempts.iter().filter(|a| !a.ok()).count(), 3);
    eventually(LONG, || {
        let ejected = number(mesh, "ejected")?;
        ensure!(ejected == 1, "{ejected} ejected");
        Ok(())
    })?;
    let began = Instant::now();
    let backends = mesh.weft("n1")?.cli_json(&["backends", "default/web"])?;
    let ejected = |b: &Value| b["ejectedForMs"].as_u64().is_some_and(|ms| ms > 0);
    let list = backends.as_array().context("a list")?;
    assert_eq!(
        list.iter().filter(|b| ejected(b)).count(),
        1,
        "{backends:#}"
    );
    let attempts = client.get(vip, &GetOptions::tcp(30))?;
    if began.elapsed() < Duration::from_millis(1_500) {
        assert_eq!(by_server(&attempts), [(good.to_owned(), 30)].into());
    }
    // Without anybody who asks.
    eventually(LONG, || {
        let ejected = number(mesh, "ejected")?;
        ensure!(ejected == 0, "{ejected} ejected");
        Ok(())
    })?;
    let attempts = client.get(vip, &GetOptions::tcp(4))?;
    assert_eq!(attempts.iter().filter(|a| !a.ok()).count(), 2);
    assert_eq!(number(mesh, "ejections")?, 1);
    Ok(())
}

#[test]
fn a_backend_that_resets_is_ejected_for_a_while() -> Result {
    let mut mesh = mesh(&["good", "bad"])?;
    mesh.serve(&["good"])?;
    mesh.serve_with(&["bad"], &ServeOptions::tcp(TARGET).reset())?;
    is_ejected_and_returns(&mut mesh, "good")
}

#[test]
fn a_backend_that_refuses_is_ejected_for_a_while() -> Result {
    let mut mesh = mesh(&["good", "bad"])?;
    // Nobody listens in the other.
    mesh.serve(&["good"])?;
    is_ejected_and_returns(&mut mesh, "good")
}

#[test]
fn a_backend_that_is_silent_is_ejected_after_its_timeouts() -> Result {
    let mut mesh = mesh(&["good", "mute"])?;
    mesh.serve(&["good", "mute"])?;
    let client = mesh.pod("client")?;
    silence(&mesh.pod("mute")?, &client)?;
    let mut spec = outlier();
    spec["timeouts"] = json!({"connect": "200ms"});
    spec["outlier"]["baseEjection"] = json!("1m");
    let expected = [("consecutiveFailures", 3), ("connectTimeoutMs", 200)];
    apply(&mut mesh, spec, &expected)?;
    let attempts = client.get(vips(0)[0], &GetOptions::tcp(20))?;
    let failed = attempts.iter().filter(|a| !a.ok()).count();
    assert_eq!(failed, 3, "{attempts:?}");
    assert_eq!(number(&mut mesh, "timedOut")?, 3);
    Ok(())
}
