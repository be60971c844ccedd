//! `weft.io/mesh: disabled`: pods and namespaces that stay out, come in and go out again.

use anyhow::ensure;
use serde_json::{Value, json};
use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::reach::{Ask, asks, settle};
use weft_e2e::town::{self, CLIENTS, FRIENDS_ONLY, SERVER, by_friend};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::GetOptions;
use weft_lab::manifest::{ServiceManifest, ServicePort};

const NOBODY_OUT: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: nobody-out, namespace: shop}
spec: {podSelector: {}, policyTypes: [Egress]}
";

fn everybody(mesh: &Mesh) -> Result<Vec<Ask>> {
    asks(mesh, &CLIENTS, SERVER)
}

/// A pod's manifest with `weft.io/mesh`; `None`: without.
fn label_pod(mesh: &Mesh, name: &str, value: Option<&str>) -> Result {
    let mut pod = mesh.pod(name)?.manifest().value();
    if let Some(value) = value {
        pod["metadata"]["labels"]["weft.io/mesh"] = json!(value);
    }
    mesh.apply(&format!("pod-{name}"), &pod.to_string())
}

fn label_namespace(mesh: &Mesh, name: &str, labels: &Value) -> Result {
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels},
    });
    mesh.apply(&format!("namespace-{name}"), &namespace.to_string())
}

/// Pods whose interfaces have programs on a node, as `weft status` says.
fn attached(mesh: &Mesh, node: &str) -> Result<Vec<String>> {
    let status = mesh.status(node)?;
    let all = status["interfaces"].as_array().cloned().unwrap_or_default();
    let names = all.iter().filter(|row| row["attached"] == true);
    Ok(names.map(|row| row["workloads"].to_string()).collect())
}

#[test]
fn who_is_out_is_judged_by_nobody_and_comes_in_again() -> Result {
    let mesh = town::start()?;
    mesh.apply("policies", FRIENDS_ONLY)?;
    settle(&everybody(&mesh)?, by_friend)?;

    // The server goes out: its policy is not asked any more. Others' are.
    label_pod(&mesh, SERVER, Some("disabled"))?;
    settle(&everybody(&mesh)?, |_| true)?;
    mesh.apply("egress", NOBODY_OUT)?;
    settle(&everybody(&mesh)?, |ask| {
        ask.client().starts_with("impostor")
    })?;

    // A namespace goes out, but for one pod of it.
    label_pod(&mesh, "colleague-near", Some("enabled"))?;
    label_namespace(
        &mesh,
        "shop",
        &json!({"team": "sales", "weft.io/mesh": "disabled"}),
    )?;
    settle(&everybody(&mesh)?, |ask| ask.client() != "colleague-near")?;

    // The server comes in, and knows by their identity who is out.
    label_pod(&mesh, SERVER, None)?;
    settle(&everybody(&mesh)?, by_friend)?;

    label_namespace(&mesh, "shop", &json!({"team": "sales"}))?;
    settle(&everybody(&mesh)?, |_| false)
}

#[test]
fn who_is_out_reaches_services_and_has_no_programs() -> Result {
    let mut mesh = town::start()?;
    let service = ServiceManifest::new(SERVER)
        .namespace("bank")
        .selector("app", SERVER)
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).to(TARGET));
    mesh.service(&service, 1)?;
    let before = attached(&mesh, "n1")?;
    ensure!(before.len() == 4, "{before:?}");

    label_pod(&mesh, "friend-near", Some("disabled"))?;
    eventually(LONG, || {
        let now = attached(&mesh, "n1")?;
        ensure!(
            now.len() == 3 && !now.iter().any(|pod| pod.contains("friend")),
            "{now:?}"
        );
        Ok(())
    })?;
    let client = mesh.pod("friend-near")?;
    for vip in vips(0) {
        let attempts = client.get(vip, &GetOptions::tcp(20))?;
        ensure!(
            attempts.iter().all(|attempt| attempt.ok()),
            "{vip}: {attempts:?}"
        );
    }
    let weft = mesh.weft("n1")?;
    let answer = weft.cli_json(&["check", "shop/friend-near", "bank/server:8080"])?;
    let said = answer.to_string();
    ensure!(said.contains("out of the mesh"), "{said}");

    label_pod(&mesh, "friend-near", None)?;
    eventually(LONG, || {
        let now = attached(&mesh, "n1")?;
        ensure!(now.len() == 4, "{now:?}");
        Ok(())
    })
}
