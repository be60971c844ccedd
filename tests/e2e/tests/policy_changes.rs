//! Policies that change, that audit, that are wrong, and that nobody is there to change: what clients see of it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::counters::established;
use weft_e2e::mesh::TARGET;
use weft_e2e::reach::{Ask, asks, hold, settle};
use weft_e2e::town::{self, CLIENTS, FRIENDS_ONLY, SERVER, by_friend, by_impostor};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::probe::monotonic_ns;
use weft_lab::{Load, LoadOptions, WeftOptions};

const SALES_ONLY: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec:
  podSelector: {matchLabels: {app: server}}
  ingress: [{from: [{namespaceSelector: {matchLabels: {team: sales}}}]}]
";
/// How long a connection that nothing disturbs is held.
const KEPT_FOR: Duration = Duration::from_secs(8);

/// Everybody asks the server, at one port.
fn everybody(mesh: &Mesh) -> Result<Vec<Ask>> {
    asks(mesh, &CLIENTS, SERVER)
}

#[test]
fn a_revoked_connection_is_closed_at_both_ends_and_no_other() -> Result {
    let mesh = town::start()?;
    mesh.apply("policies", SALES_ONLY)?;
    settle(&everybody(&mesh)?, |ask| !by_impostor(ask))?;
    let server = mesh.pod(SERVER)?;
    let to = [server.socket_v4(TARGET), server.socket_v6(TARGET)];
    eventually(LONG, || {
        let left = established(&server, TARGET)?;
        ensure!(left == 0, "{left} connections are left of asking");
        Ok(())
    })?;

    let (mut revoked, mut kept) = (Vec::new(), Vec::new());
    for address in to {
        for name in ["colleague-near", "colleague-far"] {
            let colleague = mesh.pod(name)?;
            revoked.push((name, colleague.hold(address, false, LONG)?));
            revoked.push((name, colleague.hold_busy(address, LONG)?));
        }
        for name in ["friend-near", "friend-far"] {
            let friend = mesh.pod(name)?;
            kept.push((name, friend.hold_busy(address, KEPT_FOR)?));
        }
    }
    eventually(LONG, || {
        let open = established(&server, TARGET)?;
        ensure!(open == 12, "{open} of 12 are open");
        Ok(())
    })?;

    mesh.apply("policies", FRIENDS_ONLY)?;
    let (changed, changed_ns) = (Instant::now(), monotonic_ns());
    eventually(LONG, || {
        let open = established(&server, TARGET)?;
        ensure!(open <= 4, "{open} are open, 4 are allowed");
        Ok(())
    })?;
    println!("closed at the server after {:?}", changed.elapsed());
    for (name, hold) in revoked {
        let held = hold.finish()?;
        let broken = held
            .broken_ns
            .with_context(|| format!("{name}: {held:?}"))?;
        let after = Duration::from_nanos(broken.saturating_sub(changed_ns));
        println!("{name}: {:?} after {after:?}", held.errno);
        let errno = held.errno.as_deref().unwrap_or_default();
        let errors = ["ECONNABORTED", "ECONNRESET"];
        assert!(errors.contains(&errno), "{name}: {held:?}");
    }
    for (name, hold) in kept {
        let held = hold.finish()?;
        assert!(!held.broken, "{name}: {held:?}");
        assert!(held.answered > 50, "{name}: {held:?}");
    }
    Ok(())
}

/// New TCP connections and datagrams from both friends, and requests over connections that stay.
fn load(mesh: &Mesh, duration: Duration) -> Result<Vec<Load>> {
    let server = mesh.pod(SERVER)?;
    let connects = LoadOptions::connects(40, duration);
    let datagrams = LoadOptions {
        udp: true,
        ..connects.clone()
    };
    let mut loads = Vec::new();
    for name in ["friend-near", "friend-far"] {
        let friend = mesh.pod(name)?;
        for address in [server.socket_v4(TARGET), server.socket_v6(TARGET)] {
            loads.push(friend.load(address, &connects)?);
            loads.push(friend.load(address, &datagrams)?);
        }
        let stays = LoadOptions::requests(40, duration);
        loads.push(friend.load(server.socket_v4(TARGET), &stays)?);
    }
    Ok(loads)
}

#[test]
fn a_killed_agent_loses_nothing_and_lets_nobody_in() -> Result {
    let mut mesh = town::start()?;
    mesh.apply("policies", FRIENDS_ONLY)?;
    let everybody = everybody(&mesh)?;
    settle(&everybody, by_friend)?;
    let loads = load(&mesh, Duration::from_secs(8))?;
    sleep(Duration::from_millis(500));
    for node in ["n1", "n2"] {
        mesh.weft(node)?.kill9();
    }
    hold(&everybody, by_friend).context("without an agent")?;
    // Killed again on the way: what it finds is what it must not forget.
    for pause in [50, 200, 400] {
        for node in ["n1", "n2"] {
            mesh.weft(node)?.restart()?;
        }
        sleep(Duration::from_millis(pause));
    }
    hold(&everybody, by_friend).context("while it starts")?;
    for node in ["n1", "n2"] {
        mesh.weft(node)?.wait_ready(LONG)?;
    }
    for load in loads {
        let sum = load.finish()?;
        assert_eq!(sum.failed, 0, "{sum:?}");
        assert!(sum.requests > 50, "hardly a load: {sum:?}");
    }
    // The new one is in charge.
    mesh.apply("policies", SALES_ONLY)?;
    settle(&everybody, |ask| !by_impostor(ask)).context("after a change")
}

#[test]
fn a_default_of_deny_refuses_what_no_policy_allows() -> Result {
    let options = WeftOptions::default().arg("--default-policy").arg("deny");
    let mesh = town::start_with(&options)?;
    let everybody = everybody(&mesh)?;
    hold(&everybody, |_| false)?;
    // Both ends have to allow it.
    mesh.apply("server", FRIENDS_ONLY)?;
    let egress = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: out, namespace: shop}
spec: {podSelector: {}, policyTypes: [Egress], egress: [{}]}
";
    mesh.apply("shop", egress)?;
    settle(&everybody, by_friend)?;
    hold(&everybody, by_friend)?;
    mesh.lab.manifests().remove("server")?;
    settle(&everybody, |_| false)
}

/// Flows to the server that a node tells of, with this verdict.
fn flows(mesh: &mut Mesh, node: &str, verdict: &str) -> Result<Vec<Value>> {
    let args = ["flows", "--to", "bank/server", "--verdict", verdict];
    let args = [&args[..], &["--last", "1000", "-o", "json"]].concat();
    Ok(mesh.weft(node)?.cli(&args)?.success()?.json_lines()?)
}

#[test]
fn an_audited_policy_refuses_nothing_and_tells() -> Result {
    let mut mesh = town::start()?;
    let everybody = everybody(&mesh)?;
    mesh.apply("policies", FRIENDS_ONLY)?;
    settle(&everybody, by_friend)?;
    let audit = FRIENDS_ONLY.replace(
        "namespace: bank}",
        "namespace: bank, annotations: {weft.io/mode: Audit}}",
    );
    mesh.apply("policies", &audit)?;
    settle(&everybody, |_| true)?;
    hold(&everybody, |_| true)?;
    let told: [fn(&Value) -> bool; 4] = [
        |flow| flow["protocol"] == "tcp" && flow["source"]["pod"] == "colleague-near",
        |flow| flow["protocol"] == "udp" && flow["source"]["pod"] == "colleague-near",
        |flow| flow["protocol"] == "tcp" && flow["source"]["pod"] == "impostor-far",
        |flow| flow["protocol"] == "udp" && flow["source"]["pod"] == "impostor-far",
    ];
    eventually(LONG, || {
        let audited = flows(&mut mesh, "n1", "audited")?;
        for (number, wanted) in told.iter().enumerate() {
            let flow = audited.iter().find(|flow| wanted(flow));
            let flow = flow.with_context(|| format!("none of kind {number}: {audited:#?}"))?;
            ensure!(flow["policy"] == "NetworkPolicy bank/server", "{flow:#}");
        }
        let friend = |flow: &&Value| {
            let pod = flow["source"]["pod"].as_str();
            pod.is_some_and(|name| name.starts_with("friend"))
        };
        let friend = audited.iter().find(friend);
        ensure!(friend.is_none(), "a friend was audited: {friend:#?}");
        Ok(())
    })?;
    // In force again.
    mesh.apply("policies", FRIENDS_ONLY)?;
    settle(&everybody, by_friend)
}

#[test]
fn a_bad_selector_refuses_and_is_told() -> Result {
    let mut mesh = town::start()?;
    let everybody = everybody(&mesh)?;
    hold(&everybody, |_| true)?;
    let bad = |selector: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: bad, namespace: bank}}\nspec:\n  podSelector: {selector}\n  ingress: [{{}}]\n"
        )
    };
    mesh.apply(
        "bad",
        &bad("{matchExpressions: [{key: app, operator: Is, values: [server]}]}"),
    )?;
    settle(&everybody, |_| false)?;
    hold(&everybody, |_| false)?;
    let status = mesh.status("n1")?;
    let problems = status["problems"].as_array().context("no problems")?;
    let told = problems.iter().find(|problem| {
        let field = problem["field"].as_str().unwrap_or_default();
        problem["object"] == "NetworkPolicy bank/bad" && field.starts_with("spec.podSelector")
    });
    assert!(told.is_some(), "{problems:#?}");
    let policies = mesh.weft("n1")?.cli_json(&["policies"])?.to_string();
    assert!(policies.contains("bank/bad"), "{policies}");
    assert!(policies.contains("bank/server"), "{policies}");

    mesh.apply(
        "bad",
        &bad("{matchExpressions: [{key: app, operator: In, values: [server]}]}"),
    )?;
    settle(&everybody, |_| true)?;
    eventually(LONG, || {
        let status = mesh.status("n1")?;
        let problems = status["problems"].as_array().context("no list")?;
        ensure!(problems.is_empty(), "still told: {problems:#?}");
        Ok(())
    })
}
