//! The chart renders to what a real API server takes, and gives the control plane the rights that it needs and no others.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weft_cluster::binaries;
use weft_cluster::mesh::{Mesh, eventually};
use weft_cluster::objects::{namespace, service, services};
use weft_cluster::yaml;

/// What `scripts/render-manifests` prints with these values.
fn render(values: &[&str]) -> Result<Vec<Value>> {
    let helm = binaries::folder(&["helm"])?;
    let mut command = Command::new(yaml::repository("scripts/render-manifests"));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", helm.display()));
    for value in values {
        command.args(["--set", value]);
    }
    let output = command
        .output()
        .context("starting scripts/render-manifests")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    yaml::parse(&String::from_utf8(output.stdout)?)
}

/// Where objects like this are created.
fn path(object: &Value) -> Result<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let version = text("/apiVersion").context("no apiVersion")?;
    let base = match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    };
    let plural = match text("/kind").context("no kind")? {
        "Namespace" => "namespaces",
        "ServiceAccount" => "serviceaccounts",
        "Service" => "services",
        "DaemonSet" => "daemonsets",
        "Deployment" => "deployments",
        "PodDisruptionBudget" => "poddisruptionbudgets",
        "Role" => "roles",
        "RoleBinding" => "rolebindings",
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "CustomResourceDefinition" => "customresourcedefinitions",
        other => anyhow::bail!("{other} is not expected in the chart"),
    };
    Ok(match text("/metadata/namespace") {
        Some(namespace) => format!("{base}/namespaces/{namespace}/{plural}"),
        None => format!("{base}/{plural}"),
    })
}

#[test]
fn a_real_server_takes_what_it_renders() -> Result<()> {
    let mesh = Mesh::new()?;
    let api = mesh.kubernetes.api();
    for name in ["weft-system", "shop", "bank"] {
        api.create("/api/v1/namespaces", &namespace(name))?;
    }
    for values in [
        &[][..],
        &["insecure=true"],
        &[
            "control.hostNetwork=true",
            "control.addresses={10.0.0.1,10.0.0.2}",
            "control.replicas=1",
            "kubernetesApi.host=10.0.0.9",
            "agent.nodeSelector.weft\\.io/mesh=enabled",
        ],
        &[
            "insecure=true",
            "control.namespaces={shop,bank}",
            "control.antiAffinity=required",
            "image.pullSecrets={one}",
            "agent.mapSizes.slots=500000",
            "agent.otlp=http://collector:4317",
            "agent.requestMetrics=true",
            "agent.nodePorts=false",
            "agent.nodeHealth=0.0.0.0:10256",
            "agent.uplinks={eth0,flannel.1}",
            "agent.podAnnotations.a=b",
        ],
        &["cleanup=true"],
    ] {
        let objects = render(values)?;
        ensure!(
            objects.len() >= 4,
            "{values:?} renders to {} objects",
            objects.len()
        );
        for object in objects {
            // This one is there.
            if object["kind"] == "Namespace" {
                continue;
            }
            let path = format!("{}?dryRun=All&fieldValidation=Strict", path(&object)?);
            api.create(&path, &object)
                .with_context(|| format!("with {values:?}"))?;
        }
    }
    let typo = render(&["agent.defaultPolcy=deny"]).expect_err("a typing error");
    ensure!(typo.to_string().contains("defaultPolcy"), "{typo}");
    Ok(())
}

#[test]
fn its_rights_are_enough() -> Result<()> {
    let mut mesh = Mesh::new()?;
    let api = mesh.kubernetes.api();
    let wanted = [
        "Namespace",
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
    ];
    let rendered = render(&[])?;
    // A namespace before what is in it.
    let (namespaces, others): (Vec<_>, Vec<_>) =
        rendered.iter().partition(|o| o["kind"] == "Namespace");
    for object in namespaces.into_iter().chain(others) {
        if wanted.iter().any(|kind| object["kind"] == *kind) {
            api.create(&path(object)?, object)?;
        }
    }
    let gateway = binaries::folder(&["gateway-api"])?.join("gateway-api");
    for crd in yaml::documents(&gateway.join("gateway.networking.k8s.io_httproutes.yaml"))? {
        api.create(&path(&crd)?, &crd)?;
    }
    api.create("/api/v1/namespaces", &namespace("shop"))?;
    api.create(&services("shop"), &service("cart", "10.96.1.1"))?;
    let policies = "/apis/weft.io/v1alpha1/namespaces/shop/trafficpolicies";
    let policy = json!({
        "apiVersion": "weft.io/v1alpha1", "kind": "TrafficPolicy", "metadata": {"name": "slow"},
        "spec": {
            "targetRefs": [{"kind": "Service", "name": "cart"}],
            "loadBalancing": {"policy": "LeastRequest", "sessionAffinity": {"timeout": "3h"}, "locality": "PreferZone"},
            "timeouts": {"connect": "1s", "idle": "10m", "maxDuration": "1h30m"},
            "limits": {"maxConnections": 10000, "connectionsPerSecond": 500},
            "outlier": {"consecutiveFailures": 5, "baseEjection": "30s", "maxEjectedPercent": 50},
        },
    });
    eventually(|| api.create(policies, &policy))?;
    let mut lost = policy.clone();
    lost["metadata"]["name"] = json!("lost");
    lost["spec"]["targetRefs"][0]["name"] = json!("cart");
    api.create(policies, &lost)?;
    // What makes no sense to Weft does not come past the CustomResourceDefinition either.
    let mut wrong = policy.clone();
    wrong["metadata"]["name"] = json!("wrong");
    wrong["spec"]["timeouts"]["connect"] = json!("soon");
    ensure!(api.create(policies, &wrong).is_err());

    let kubeconfig = mesh
        .kubernetes
        .account_kubeconfig("weft-system", "weft-control")?;
    mesh.start_control_with(&kubeconfig, &[])?;
    eventually(|| {
        ensure!(mesh.status()?["synced"] == json!(true), "{}", mesh.log());
        Ok(())
    })?;
    let api = mesh.kubernetes.api();
    eventually(|| {
        let policy = api.get(&format!("{policies}/slow"))?.context("a policy")?;
        ensure!(
            policy.pointer("/status/conditions/0/status").is_some(),
            "{policy}; {}",
            mesh.log()
        );
        Ok(())
    })?;
    // The younger, or the later by name, of two loses, and its users are told.
    eventually(|| {
        let list = api
            .get("/apis/events.k8s.io/v1/namespaces/shop/events")?
            .context("events")?;
        ensure!(
            !list["items"].as_array().context("a list")?.is_empty(),
            "{}",
            mesh.log()
        );
        Ok(())
    })?;
    let problems = mesh.problems()?;
    ensure!(
        !problems.iter().any(|p| p.contains("may not")),
        "{problems:?}"
    );
    ensure!(!mesh.log().contains("orbidden"), "{}", mesh.log());
    Ok(())
}
