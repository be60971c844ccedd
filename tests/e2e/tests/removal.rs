//! A backend goes away: its connections break at once, wherever they are, and no others.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{Endpoint, EndpointSliceManifest, ServiceManifest, ServicePort};
use weft_lab::probe::monotonic_ns;
use weft_lab::{Hold, Lab, LabBuilder, Place, PodSpec, WeftOptions};

const HELD_FOR: Duration = Duration::from_secs(8);

fn two_nodes() -> LabBuilder {
    Lab::builder()
        .node("n1")
        .node("n2")
        .pod(PodSpec::new("c1", "n1"))
        .pod(PodSpec::new("c2", "n2"))
        .pod(PodSpec::new("stays", "n1"))
        .pod(PodSpec::new("goes", "n2"))
}

/// Services 0 (backend `goes`) and 1 (backend `stays`), TCP and UDP.
fn services(mesh: &Mesh) -> Result {
    for (index, (name, backend)) in [("first", "goes"), ("second", "stays")]
        .into_iter()
        .enumerate()
    {
        let service = ServiceManifest::new(name)
            .cluster_ips(vip_addresses(u16::try_from(index)?))
            .port(ServicePort::tcp(PORT).named("tcp").to(TARGET))
            .port(ServicePort::udp(PORT).named("udp").to(TARGET));
        slices(mesh, name, backend, |endpoint| endpoint)?;
        mesh.service(&service, 1)?;
    }
    Ok(())
}

fn slices(
    mesh: &Mesh,
    service: &str,
    backend: &str,
    shape: impl Fn(Endpoint) -> Endpoint,
) -> Result {
    for (family, address) in mesh
        .pod(backend)?
        .addresses()
        .both()
        .into_iter()
        .enumerate()
    {
        let slice = EndpointSliceManifest::new(format!("{service}-{backend}-{family}"), service)
            .port("tcp", "TCP", TARGET)
            .port("udp", "UDP", TARGET)
            .endpoint(shape(Endpoint::new(address)));
        mesh.apply(
            &format!("slice-{service}-{backend}-{family}"),
            &slice.yaml(),
        )?;
    }
    Ok(())
}

fn remove_slices(mesh: &Mesh, service: &str, backend: &str) -> Result {
    for family in 0..2 {
        mesh.lab
            .manifests()
            .remove(&format!("slice-{service}-{backend}-{family}"))?;
    }
    Ok(())
}

/// Pods on both nodes, and the nodes themselves.
fn places(mesh: &Mesh) -> Result<Vec<(String, Place)>> {
    Ok(vec![
        ("pod on n1".into(), mesh.pod("c1")?.place().clone()),
        ("pod on n2".into(), mesh.pod("c2")?.place().clone()),
        ("host n1".into(), mesh.lab.node("n1")?.host().clone()),
        ("host n2".into(), mesh.lab.node("n2")?.host().clone()),
    ])
}

struct Connection {
    what: String,
    hold: Hold,
}

fn hold_all(mesh: &Mesh, vips: [SocketAddr; 2], expected: &str) -> Result<Vec<Connection>> {
    let mut all = Vec::new();
    for (place_name, place) in places(mesh)? {
        for vip in vips {
            for udp in [false, true] {
                let what = format!("{place_name} to {vip}, udp {udp}");
                let hold = place
                    .hold(vip, udp, HELD_FOR)
                    .with_context(|| what.clone())?;
                ensure!(
                    hold.server().as_deref() == Some(expected),
                    "{what}: {:?}",
                    hold.server()
                );
                all.push(Connection { what, hold });
            }
        }
    }
    Ok(all)
}

#[test]
fn connections_of_a_removed_backend_break_at_once_and_no_others() -> Result {
    let mut mesh = Mesh::start(two_nodes())?;
    mesh.serve(&["stays", "goes"])?;
    services(&mesh)?;
    let doomed = hold_all(&mesh, vips(0), "goes")?;
    let spared = hold_all(&mesh, vips(1), "stays")?;
    let direct = mesh
        .pod("c1")?
        .hold(mesh.pod("goes")?.socket_v4(TARGET), false, HELD_FOR)?;

    let removed_ns = monotonic_ns();
    remove_slices(&mesh, "first", "goes")?;
    for Connection { what, hold } in doomed {
        let held = hold.finish().with_context(|| what.clone())?;
        assert!(held.broken, "{what} was not broken: {held:?}");
        let errno = held.errno.as_deref().unwrap_or_default();
        assert!(
            matches!(errno, "ECONNABORTED" | "ECONNRESET"),
            "{what}: {held:?}"
        );
        let after = held
            .broken_ns
            .unwrap_or(u64::MAX)
            .saturating_sub(removed_ns);
        assert!(
            after < 3_000_000_000,
            "{what}: broken {} ms after the removal",
            after / 1_000_000
        );
    }
    for Connection { what, hold } in spared {
        let held = hold.finish().with_context(|| what.clone())?;
        assert!(!held.broken, "{what} was broken: {held:?}");
    }
    // Who asked for the pod itself has nothing to do with the service.
    assert!(!direct.finish()?.broken);
    Ok(())
}

#[test]
fn connections_outlive_their_service_but_not_the_pod() -> Result {
    let mut mesh = Mesh::start(two_nodes())?;
    mesh.serve(&["stays", "goes"])?;
    services(&mesh)?;
    let to = vips(0)[0];
    let client = mesh.pod("c1")?;
    let short = client.hold(to, false, Duration::from_secs(3))?;
    let long = client.hold(to, false, HELD_FOR)?;
    mesh.lab.manifests().remove("service-default-first")?;
    remove_slices(&mesh, "first", "goes")?;
    mesh.wait_gone("default/first")?;
    // Nobody said that the pod is gone.
    assert!(!short.finish()?.broken);
    mesh.lab.manifests().remove("pod-goes")?;
    let held = long.finish()?;
    assert!(held.broken, "{held:?}");
    Ok(())
}

#[test]
fn a_draining_backend_keeps_its_connections_until_the_time_is_over() -> Result {
    let drain = Duration::from_secs(3);
    let options = WeftOptions::default().arg("--drain-timeout").arg("3s");
    let mut mesh = Mesh::start_with(two_nodes(), &options)?;
    mesh.serve(&["stays", "goes"])?;
    services(&mesh)?;
    let draining = hold_all(&mesh, vips(0), "goes")?;
    // As long as no other endpoint is ready, a draining one is better than none and has no end.
    slices(&mesh, "first", "stays", |endpoint| endpoint)?;
    let since = monotonic_ns();
    slices(&mesh, "first", "goes", Endpoint::draining)?;
    let weft = mesh.weft("n1")?;
    eventually(LONG, || {
        let services = weft.cli_json(&["services", "default/first"])?;
        let count = |s: &serde_json::Value| s["draining"].as_u64();
        let all = services
            .as_array()
            .into_iter()
            .flatten()
            .all(|s| count(s) > Some(0));
        ensure!(all, "{services:#}");
        Ok(())
    })?;
    for Connection { what, hold } in draining {
        let held = hold.finish().with_context(|| what.clone())?;
        assert!(held.broken, "{what} outlived the drain time: {held:?}");
        let lasted = Duration::from_nanos(held.broken_ns.unwrap_or_default().saturating_sub(since));
        assert!(
            lasted > drain - Duration::from_millis(200),
            "{what}: broken after {lasted:?}"
        );
        assert!(
            lasted < drain + Duration::from_secs(3),
            "{what}: broken after {lasted:?}"
        );
    }
    Ok(())
}

#[test]
fn a_draining_backend_that_recovers_keeps_its_connections() -> Result {
    let options = WeftOptions::default().arg("--drain-timeout").arg("2s");
    let mut mesh = Mesh::start_with(two_nodes(), &options)?;
    mesh.serve(&["stays", "goes"])?;
    services(&mesh)?;
    let connection = mesh
        .pod("c1")?
        .hold(vips(0)[0], false, Duration::from_secs(5))?;
    slices(&mesh, "first", "stays", |endpoint| endpoint)?;
    slices(&mesh, "first", "goes", Endpoint::draining)?;
    std::thread::sleep(Duration::from_secs(1));
    slices(&mesh, "first", "goes", |endpoint| endpoint)?;
    let held = connection.finish()?;
    assert!(!held.broken, "{held:?}");
    Ok(())
}
