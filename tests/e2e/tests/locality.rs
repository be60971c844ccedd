//! Which endpoints a node uses: near ones, local ones, terminating ones, ones that are not ready.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::stats::{assert_even, by_server};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{Endpoint, EndpointSliceManifest, ServiceManifest, ServicePort};
use weft_lab::{GetOptions, Lab, LabBuilder, PodSpec};

fn web() -> ServiceManifest {
    ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "web")
}

/// Zone east: n1 with backend e1, n2 with e2. Zone west: n3 with w3. Clients on n1 and n3.
fn three_nodes() -> LabBuilder {
    let backend = |name: &str, node: &str| PodSpec::new(name, node).label("app", "web");
    Lab::builder()
        .node_in_zone("n1", "east")
        .node_in_zone("n2", "east")
        .node_in_zone("n3", "west")
        .pod(PodSpec::new("east", "n1"))
        .pod(PodSpec::new("west", "n3"))
        .pod(backend("e1", "n1"))
        .pod(backend("e2", "n2"))
        .pod(backend("w3", "n3"))
}

fn lands_on(mesh: &Mesh, client: &str, expected: &[&str]) -> Result {
    let pod = mesh.pod(client)?;
    for vip in vips(0) {
        // A change of which nodes are used shows in where connections land, not in how many endpoints are ready.
        eventually(LONG, || {
            let options = GetOptions::tcp(10).timeout(Duration::from_millis(300));
            let attempts = pod.get(vip, &options)?;
            let lands_right = attempts.iter().all(|attempt| {
                let server = attempt.server.as_deref();
                server.is_some_and(|name| expected.contains(&name))
            });
            ensure!(
                lands_right,
                "{client} does not land on {expected:?}: {attempts:?}"
            );
            Ok(())
        })?;
        let count = u32::try_from(expected.len())? * 40;
        assert_even(
            &by_server(&pod.get(vip, &GetOptions::tcp(count))?),
            expected,
        );
    }
    Ok(())
}

fn locality(mode: &str) -> String {
    json!({
        "apiVersion": "weft.io/v1alpha1",
        "kind": "TrafficPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "targetRefs": [{"kind": "Service", "name": "web"}],
            "loadBalancing": {"locality": mode},
        },
    })
    .to_string()
}

#[test]
fn near_endpoints_come_first_and_far_ones_when_there_is_no_other() -> Result {
    let mut mesh = Mesh::start(three_nodes())?;
    mesh.serve(&["e1", "e2", "w3"])?;
    mesh.apply("service-default-web", &web().yaml())?;
    lands_on(&mesh, "east", &["e1", "e2", "w3"])?;

    mesh.apply("policy", &locality("PreferNode"))?;
    lands_on(&mesh, "east", &["e1"])?;
    lands_on(&mesh, "west", &["w3"])?;

    mesh.apply("policy", &locality("PreferZone"))?;
    lands_on(&mesh, "east", &["e1", "e2"])?;
    lands_on(&mesh, "west", &["w3"])?;

    // None left in the zone: all of them.
    let w3 = mesh.pod("w3")?.manifest();
    mesh.apply("pod-w3", &w3.clone().ready(false).yaml())?;
    lands_on(&mesh, "west", &["e1", "e2"])?;
    mesh.apply("pod-w3", &w3.yaml())?;
    lands_on(&mesh, "west", &["w3"])?;

    mesh.lab.manifests().remove("policy")?;
    lands_on(&mesh, "west", &["e1", "e2", "w3"])
}

#[test]
fn local_traffic_policy_never_leaves_the_node() -> Result {
    let mut mesh = Mesh::start(three_nodes())?;
    mesh.serve(&["e1", "e2", "w3"])?;
    mesh.apply(
        "service-default-web",
        &web().internal_traffic_local().yaml(),
    )?;
    lands_on(&mesh, "east", &["e1"])?;
    lands_on(&mesh, "west", &["w3"])?;
    let e1 = mesh.pod("e1")?.manifest();
    mesh.apply("pod-e1", &e1.ready(false).yaml())?;
    let client = mesh.pod("east")?;
    for vip in vips(0) {
        eventually(LONG, || {
            let attempts = client.get(vip, &GetOptions::tcp(3))?;
            let refused = attempts
                .iter()
                .all(|a| a.errno.as_deref() == Some("ECONNREFUSED"));
            ensure!(refused, "{attempts:?}");
            Ok(())
        })?;
    }
    lands_on(&mesh, "west", &["w3"])
}

/// Two pods behind hand-made slices.
fn with_slices() -> Result<Mesh> {
    let lab = Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("a", "n1"))
        .pod(PodSpec::new("b", "n1"));
    let mut mesh = Mesh::start(lab)?;
    mesh.serve(&["a", "b"])?;
    let service = ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).to(TARGET));
    mesh.apply("service-default-web", &service.yaml())?;
    Ok(mesh)
}

fn slices(mesh: &Mesh, shape: impl Fn(&str, Endpoint) -> Option<Endpoint>) -> Result {
    for family in [0, 1] {
        let endpoints = ["a", "b"].iter().filter_map(|name| {
            let address = mesh.pod(name).ok()?.addresses().both()[family];
            shape(name, Endpoint::new(address).node("n1"))
        });
        let slice = EndpointSliceManifest::new(format!("web-{family}"), "web")
            .port("", "TCP", TARGET)
            .endpoints(endpoints);
        mesh.apply(&format!("slice-{family}"), &slice.yaml())?;
    }
    Ok(())
}

#[test]
fn terminating_endpoints_are_the_last_resort() -> Result {
    let mesh = with_slices()?;
    slices(&mesh, |_, endpoint| Some(endpoint))?;
    lands_on(&mesh, "client", &["a", "b"])?;
    slices(&mesh, |name, endpoint| {
        Some(if name == "b" {
            endpoint.draining()
        } else {
            endpoint
        })
    })?;
    lands_on(&mesh, "client", &["a"])?;
    slices(&mesh, |name, endpoint| {
        Some(if name == "b" {
            endpoint.draining()
        } else {
            endpoint.not_ready()
        })
    })?;
    lands_on(&mesh, "client", &["b"])?;
    slices(&mesh, |_, endpoint| Some(endpoint.not_ready()))?;
    let client = mesh.pod("client")?;
    eventually(LONG, || {
        let attempts = client.get(vips(0)[0], &GetOptions::tcp(2))?;
        let refused = attempts
            .iter()
            .all(|a| a.errno.as_deref() == Some("ECONNREFUSED"));
        ensure!(refused, "{attempts:?}");
        Ok(())
    })
}

#[test]
fn unready_addresses_are_used_when_published() -> Result {
    let lab = Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("ready", "n1").label("app", "web"))
        .pod(PodSpec::new("starting", "n1").label("app", "web"));
    let mut mesh = Mesh::start(lab)?;
    mesh.serve(&["ready", "starting"])?;
    mesh.apply(
        "pod-starting",
        &mesh.pod("starting")?.manifest().ready(false).yaml(),
    )?;
    mesh.apply("service-default-web", &web().yaml())?;
    lands_on(&mesh, "client", &["ready"])?;
    mesh.apply("service-default-web", &web().publish_not_ready().yaml())?;
    lands_on(&mesh, "client", &["ready", "starting"])
}
