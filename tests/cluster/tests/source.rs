//! What is written through a real API server takes effect in the kernel, and what the server does not answer takes nothing away.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use weft_cluster::User;
use weft_cluster::mesh::{Mesh, eventually};
use weft_cluster::objects::{binding, namespace, role, service, services, slice, slices};

const NAMESPACES: &str = "/api/v1/namespaces";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/weft.io/v1alpha1/namespaces/shop/trafficpolicies";

/// Waits until the kernel has these services and no others of namespace "shop".
fn await_services(mesh: &Mesh, expected: &[&str]) -> Result<()> {
    eventually(|| {
        let mut there = mesh.services()?;
        there.retain(|name| name.starts_with("shop/"));
        ensure!(there == expected, "{there:?} instead of {expected:?}");
        Ok(())
    })
}

fn await_backends(mesh: &Mesh, expected: &[&str]) -> Result<()> {
    eventually(|| {
        let mut there = mesh.backends()?;
        there.retain(|address| address.starts_with("10.244."));
        ensure!(there == expected, "{there:?} instead of {expected:?}");
        Ok(())
    })
}

fn await_problem(mesh: &Mesh, text: &str) -> Result<()> {
    eventually(|| {
        let problems = mesh.problems()?;
        ensure!(
            problems.iter().any(|p| p.contains(text)),
            "no {text:?} in {problems:?}; {}",
            mesh.log()
        );
        Ok(())
    })
}

fn await_no_problem(mesh: &Mesh, text: &str) -> Result<()> {
    eventually(|| {
        let problems = mesh.problems()?;
        ensure!(!problems.iter().any(|p| p.contains(text)), "{problems:?}");
        Ok(())
    })
}

/// Two services, with an endpoint each.
fn shop(mesh: &Mesh) -> Result<()> {
    let api = mesh.kubernetes.api();
    api.create(NAMESPACES, &namespace("shop"))?;
    for (name, address, backend) in [
        ("cart", "10.96.1.1", "10.244.0.1"),
        ("stock", "10.96.1.2", "10.244.0.2"),
    ] {
        api.create(&services("shop"), &service(name, address))?;
        api.create(&slices("shop"), &slice(name, &[backend]))?;
    }
    Ok(())
}

#[test]
fn what_is_written_through_the_api_reaches_the_kernel() -> Result<()> {
    let mut mesh = Mesh::new()?;
    shop(&mesh)?;
    mesh.start_control(User::Admin, &[])?;
    mesh.start_agent()?;
    await_services(&mesh, &["shop/cart", "shop/stock"])?;
    await_backends(&mesh, &["10.244.0.1", "10.244.0.2"])?;

    let api = mesh.kubernetes.api();
    let path = format!("{}/cart-1", slices("shop"));
    let two = json!({"endpoints": [{"addresses": ["10.244.0.7"]}, {"addresses": ["10.244.0.8"]}]});
    api.patch(&path, &two)?;
    await_backends(&mesh, &["10.244.0.2", "10.244.0.7", "10.244.0.8"])?;
    api.delete(&format!("{}/stock", services("shop")))?;
    await_services(&mesh, &["shop/cart"])?;

    // A kind that comes later is read as well.
    api.create(CRDS, &traffic_policies())?;
    let policy = json!({
        "apiVersion": "weft.io/v1alpha1", "kind": "TrafficPolicy", "metadata": {"name": "lost"},
        "spec": {"targetRefs": [{"kind": "Service", "name": "nowhere"}]},
    });
    eventually(|| api.create(POLICIES, &policy))?;
    await_problem(&mesh, "Service shop/nowhere does not exist")?;
    // And it goes, with all that was of it.
    api.delete(&format!("{CRDS}/trafficpolicies.weft.io"))?;
    await_no_problem(&mesh, "nowhere")
}

#[test]
fn a_server_that_is_away_takes_nothing_away() -> Result<()> {
    let mut mesh = Mesh::new()?;
    shop(&mesh)?;
    mesh.start_control(User::Admin, &[])?;
    mesh.start_agent()?;
    await_services(&mesh, &["shop/cart", "shop/stock"])?;

    mesh.kubernetes.kill_server();
    await_problem(&mesh, "the API server does not answer")?;
    await_services(&mesh, &["shop/cart", "shop/stock"])?;
    await_backends(&mesh, &["10.244.0.1", "10.244.0.2"])?;

    // What happens meanwhile is not in the history that the server can tell when it is back: it answers 410 Gone.
    mesh.kubernetes
        .forget("/registry/services/specs/shop/stock")?;
    mesh.kubernetes.compact()?;
    mesh.kubernetes.restart_server()?;
    await_services(&mesh, &["shop/cart"])?;
    await_no_problem(&mesh, "does not answer")?;

    let api = mesh.kubernetes.api();
    api.create(&services("shop"), &service("till", "10.96.1.3"))?;
    await_services(&mesh, &["shop/cart", "shop/till"])
}

#[test]
fn a_missing_right_is_named_and_the_rest_goes_on() -> Result<()> {
    let mut mesh = Mesh::new()?;
    shop(&mesh)?;
    let api = mesh.kubernetes.api();
    let core: &[&str] = &["namespaces", "pods", "services"];
    let some = [("", core), ("discovery.k8s.io", &["endpointslices"])];
    api.create(ROLES, &role(&some))?;
    api.create(BINDINGS, &binding())?;
    mesh.start_control(User::Weft, &[])?;
    mesh.start_agent()?;

    // Without the policies, a control plane that starts must not tell agents that there are none.
    await_problem(
        &mesh,
        "may not list networkpolicies.networking.k8s.io in the whole cluster",
    )?;
    await_problem(&mesh, "may not list nodes in the whole cluster")?;
    ensure!(mesh.status()?["synced"] == json!(false));

    let more = [
        some[0],
        some[1],
        ("networking.k8s.io", &["networkpolicies"]),
    ];
    let api = mesh.kubernetes.api();
    api.replace(&format!("{ROLES}/weft"), &role(&more))?;
    await_services(&mesh, &["shop/cart", "shop/stock"])?;
    await_problem(&mesh, "may not list nodes")?;
    await_no_problem(&mesh, "networkpolicies")?;

    // Taken away later, it takes nothing with it.
    api.replace(&format!("{ROLES}/weft"), &role(&some[..1]))?;
    mesh.kubernetes.kill_server();
    mesh.kubernetes.restart_server()?;
    await_problem(&mesh, "may not watch endpointslices.discovery.k8s.io")
        .or_else(|_| await_problem(&mesh, "may not list endpointslices.discovery.k8s.io"))?;
    let api = mesh.kubernetes.api();
    api.create(&services("shop"), &service("till", "10.96.1.3"))?;
    await_services(&mesh, &["shop/cart", "shop/stock", "shop/till"])?;
    await_backends(&mesh, &["10.244.0.1", "10.244.0.2"])
}

#[test]
fn other_namespaces_are_left_alone_when_some_are_named() -> Result<()> {
    let mut mesh = Mesh::new()?;
    shop(&mesh)?;
    let api = mesh.kubernetes.api();
    api.create(NAMESPACES, &namespace("bank"))?;
    api.create(&services("bank"), &service("vault", "10.96.2.1"))?;
    mesh.start_control(User::Admin, &["--namespaces", "bank"])?;
    mesh.start_agent()?;
    eventually(|| {
        let there = mesh.services()?;
        ensure!(there == ["bank/vault"], "{there:?}");
        Ok(())
    })
    .context("only what was asked for")
}

/// Says of the kind only that there is one.
fn traffic_policies() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "trafficpolicies.weft.io"},
        "spec": {
            "group": "weft.io", "scope": "Namespaced",
            "names": {"kind": "TrafficPolicy", "plural": "trafficpolicies", "singular": "trafficpolicy", "listKind": "TrafficPolicyList"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
