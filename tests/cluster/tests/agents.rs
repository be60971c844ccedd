//! Agents prove with a token of their service account which node they are on; nobody else gets a byte.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weft_cluster::User;
use weft_cluster::mesh::{Mesh, eventually};
use weft_cluster::objects::{namespace, service, services};

const SYSTEM: &str = "/api/v1/namespaces/weft-system";

/// A pod of this service account on a node; nothing runs it.
fn pod(name: &str, node: &str, account: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node, "serviceAccountName": account,
            "containers": [{"name": "agent", "image": "weft"}],
        },
    })
}

/// A token of a pod's service account, as its projected volume would have it.
fn token(mesh: &Mesh, pod: &str, account: &str, audience: &str) -> Result<String> {
    let api = mesh.kubernetes.api();
    let uid =
        api.get(&format!("{SYSTEM}/pods/{pod}"))?.context("a pod")?["metadata"]["uid"].clone();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [audience], "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}},
    });
    let answer = api.create(
        &format!("{SYSTEM}/serviceaccounts/{account}/token"),
        &request,
    )?;
    Ok(answer["status"]["token"]
        .as_str()
        .context("a token")?
        .to_owned())
}

#[test]
fn agents_are_known_by_their_service_account() -> Result<()> {
    let mut mesh = Mesh::new()?;
    let api = mesh.kubernetes.api();
    for name in ["weft-system", "shop"] {
        api.create("/api/v1/namespaces", &namespace(name))?;
    }
    api.create(&services("shop"), &service("cart", "10.96.1.1"))?;
    for account in ["weft-agent", "other"] {
        let object =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}});
        api.create(&format!("{SYSTEM}/serviceaccounts"), &object)?;
    }
    for (name, node, account) in [
        ("here", "n1", "weft-agent"),
        ("there", "n2", "weft-agent"),
        ("else", "n1", "other"),
    ] {
        let pods = format!("{SYSTEM}/pods");
        eventually(|| api.create(&pods, &pod(name, node, account)))?;
    }
    let options = [
        "--agent-account",
        "weft-system/weft-agent",
        "--ca-secret",
        "weft-ca",
        "--ca-config-map",
        "weft-ca-bundle",
    ];
    mesh.start_control(User::Admin, &options)?;
    let bundle = eventually(|| {
        let path = "/api/v1/namespaces/default/configmaps/weft-ca-bundle";
        let map = mesh
            .kubernetes
            .api()
            .get(path)?
            .with_context(|| mesh.log())?;
        Ok(map["data"]["ca.pem"]
            .as_str()
            .context("no certificates")?
            .to_owned())
    })?;
    ensure!(bundle.contains("BEGIN CERTIFICATE"), "{bundle}");

    for (pod, account, audience, why) in [
        (
            "there",
            "weft-agent",
            "weft.io/control",
            "cannot be asked for",
        ),
        ("else", "other", "weft.io/control", "somebody else"),
        (
            "here",
            "weft-agent",
            "https://kubernetes.default.svc",
            "the API server does not know it",
        ),
    ] {
        let token = token(&mesh, pod, account, audience)?;
        mesh.start_agent_with(&token, &bundle)?;
        eventually(|| {
            let said = mesh.agent_log();
            ensure!(
                said.contains(why) || mesh.log().contains(why),
                "{why}: {said}; {}",
                mesh.log()
            );
            Ok(())
        })?;
        ensure!(
            mesh.known_services()?.is_empty(),
            "{pod} {account} {audience} was served"
        );
    }
    let good = token(&mesh, "here", "weft-agent", "weft.io/control")?;
    mesh.start_agent_with(&good, &bundle)?;
    ensure!(
        mesh.services()? == ["default/kubernetes", "shop/cart"],
        "{:?}",
        mesh.services()?
    );

    // Another replica, with nothing of its own, has the same CA: what the agent knows is enough.
    mesh.stop_control()?;
    mesh.kubernetes
        .api()
        .create(&services("shop"), &service("till", "10.96.1.2"))?;
    mesh.start_control(User::Admin, &options)?;
    eventually(|| {
        let there = mesh.services()?;
        ensure!(
            there.contains(&"shop/till".to_owned()),
            "{there:?}; {}",
            mesh.agent_log()
        );
        Ok(())
    })
}
