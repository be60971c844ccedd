//! What becomes of objects stands in their status and in Events, written by one replica.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weft_cluster::User;
use weft_cluster::binaries;
use weft_cluster::mesh::{Mesh, eventually};
use weft_cluster::objects::{namespace, service, services};
use weft_cluster::yaml;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/weft.io/v1alpha1/namespaces/shop/trafficpolicies";
const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/shop/events";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/weft-control";

fn install_kinds(mesh: &Mesh) -> Result<()> {
    let gateway = binaries::folder(&["gateway-api"])?.join("gateway-api");
    let files = [
        yaml::repository("deploy/chart/crds/trafficpolicies.weft.io.yaml"),
        gateway.join("gateway.networking.k8s.io_httproutes.yaml"),
        gateway.join("gateway.networking.k8s.io_grpcroutes.yaml"),
    ];
    for file in files {
        for crd in yaml::documents(&file)? {
            mesh.kubernetes.api().create(CRDS, &crd)?;
        }
    }
    Ok(())
}

fn policy(name: &str, service: &str) -> Value {
    json!({
        "apiVersion": "weft.io/v1alpha1", "kind": "TrafficPolicy", "metadata": {"name": name},
        "spec": {"targetRefs": [{"kind": "Service", "name": service}], "timeouts": {"connect": "1s"}},
    })
}

fn route(backend: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "cart"},
        "spec": {
            "parentRefs": [
                {"group": "", "kind": "Service", "name": "cart", "port": 80},
                {"group": "", "kind": "Service", "name": "lost"},
            ],
            "rules": [{"backendRefs": [{"name": backend, "port": 80}]}],
        },
    })
}

fn conditions(list: &Value) -> Vec<String> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |c: &Value, field: &str| c[field].as_str().unwrap_or_default().to_owned();
    let line = |c: &Value| {
        format!(
            "{}={}/{}",
            text(c, "type"),
            text(c, "status"),
            text(c, "reason")
        )
    };
    list.iter().map(line).collect()
}

/// Waits until the object at `path` has these conditions below `pointer`, as "Type=Status/Reason".
fn await_conditions(mesh: &Mesh, path: &str, pointer: &str, expected: &[&str]) -> Result<Value> {
    eventually(|| {
        let object = mesh.kubernetes.api().get(path)?.context("no object")?;
        let list = object.pointer(pointer).unwrap_or(&Value::Null);
        let there = conditions(list);
        ensure!(
            there == expected,
            "{there:?} instead of {expected:?}: {}; {}",
            object["status"],
            mesh.log()
        );
        Ok(object)
    })
}

/// Waits until one Event says this of an object, and no second one does.
fn one_event(mesh: &Mesh, kind: &str, name: &str, text: &str) -> Result<()> {
    eventually(|| {
        let list = mesh.kubernetes.api().get(EVENTS)?.context("no events")?;
        let items = list["items"].as_array().context("no list")?;
        let is_it = |e: &&Value| {
            e["regarding"]["kind"] == kind
                && e["regarding"]["name"] == name
                && e["note"].as_str().is_some_and(|note| note.contains(text))
        };
        let count = items.iter().filter(is_it).count();
        ensure!(
            count == 1,
            "{count} Events of {kind} {name} with {text:?}; {}",
            mesh.log()
        );
        Ok(())
    })
}

#[test]
fn objects_say_what_becomes_of_them() -> Result<()> {
    let mut mesh = Mesh::new()?;
    install_kinds(&mesh)?;
    let api = mesh.kubernetes.api();
    api.create("/api/v1/namespaces", &namespace("shop"))?;
    for (name, address) in [("cart", "10.96.1.1"), ("stock", "10.96.1.2")] {
        api.create(&services("shop"), &service(name, address))?;
    }
    eventually(|| api.create(POLICIES, &policy("a", "cart")))?;
    api.create(POLICIES, &policy("lost", "nowhere"))?;
    eventually(|| api.create(ROUTES, &route("stock")))?;
    mesh.start_control(User::Admin, &[])?;

    let status = "/status/conditions";
    let at = |name: &str| format!("{POLICIES}/{name}");
    let before = await_conditions(&mesh, &at("a"), status, &["Accepted=True/Accepted"])?;
    await_conditions(
        &mesh,
        &at("lost"),
        status,
        &["Accepted=False/TargetNotFound"],
    )?;
    let api = mesh.kubernetes.api();
    // Names decide between two of one second.
    api.create(POLICIES, &policy("b", "cart"))?;
    await_conditions(&mesh, &at("b"), status, &["Accepted=False/Conflicted"])?;
    let path = format!("{ROUTES}/cart");
    let fine = ["Accepted=True/Accepted", "ResolvedRefs=True/ResolvedRefs"];
    await_conditions(&mesh, &path, "/status/parents/0/conditions", &fine)?;
    let lost = [
        "Accepted=False/NoMatchingParent",
        "ResolvedRefs=True/ResolvedRefs",
    ];
    await_conditions(&mesh, &path, "/status/parents/1/conditions", &lost)?;

    // A backend that goes shows in the route, and with it as an Event.
    mesh.kubernetes
        .api()
        .delete(&format!("{}/stock", services("shop")))?;
    let missing = [
        "Accepted=True/Accepted",
        "ResolvedRefs=False/BackendNotFound",
    ];
    await_conditions(&mesh, &path, "/status/parents/0/conditions", &missing)?;
    one_event(
        &mesh,
        "HTTPRoute",
        "cart",
        "Service shop/stock does not exist",
    )?;
    one_event(
        &mesh,
        "TrafficPolicy",
        "b",
        "already has TrafficPolicy shop/a",
    )?;

    // What is right already is not written again, not by the next leader either.
    let holder = |lease: &Value| {
        lease["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let first = holder(&mesh.kubernetes.api().get(LEASE)?.context("no Lease")?);
    mesh.stop_control()?;
    mesh.start_control(User::Admin, &[])?;
    eventually(|| {
        let now = holder(&mesh.kubernetes.api().get(LEASE)?.context("no Lease")?);
        ensure!(!now.is_empty() && now != first, "{now:?} still leads");
        Ok(())
    })?;
    mesh.kubernetes.api().delete(&at("a"))?;
    await_conditions(&mesh, &at("b"), status, &["Accepted=True/Accepted"])?;
    let lost_now = await_conditions(
        &mesh,
        &at("lost"),
        status,
        &["Accepted=False/TargetNotFound"],
    )?;
    ensure!(before["metadata"]["generation"] == 1 && lost_now["metadata"]["generation"] == 1);
    let after = mesh
        .kubernetes
        .api()
        .get(&at("lost"))?
        .context("a policy")?;
    ensure!(after["metadata"]["resourceVersion"] == lost_now["metadata"]["resourceVersion"]);
    one_event(
        &mesh,
        "TrafficPolicy",
        "b",
        "already has TrafficPolicy shop/a",
    )
}

#[test]
fn one_of_two_replicas_writes() -> Result<()> {
    let mut mesh = Mesh::new()?;
    install_kinds(&mesh)?;
    let api = mesh.kubernetes.api();
    api.create("/api/v1/namespaces", &namespace("shop"))?;
    api.create(&services("shop"), &service("cart", "10.96.1.1"))?;
    mesh.start_control(User::Admin, &[])?;
    let lease = || mesh.kubernetes.api().get(LEASE)?.context("no Lease");
    let holder = eventually(|| Ok(lease()?["spec"]["holderIdentity"].clone()))?;
    let mut second = mesh.another_control(User::Admin)?;
    second.wait_for_line("control plane serves ADS", weft_cluster::mesh::PATIENCE)?;
    // It looks at the Lease every three seconds, and leaves it.
    std::thread::sleep(std::time::Duration::from_secs(5));
    ensure!(lease()?["spec"]["holderIdentity"] == holder);
    // Killed, the first one lets nobody know: the second takes the Lease once it has run out.
    mesh.kill_control();
    let lease = || mesh.kubernetes.api().get(LEASE)?.context("no Lease");
    eventually(|| {
        ensure!(
            lease()?["spec"]["holderIdentity"] != holder,
            "still {holder}"
        );
        Ok(())
    })?;
    eventually(|| mesh.kubernetes.api().create(POLICIES, &policy("a", "cart")))?;
    let path = format!("{POLICIES}/a");
    await_conditions(
        &mesh,
        &path,
        "/status/conditions",
        &["Accepted=True/Accepted"],
    )?;
    Ok(())
}
