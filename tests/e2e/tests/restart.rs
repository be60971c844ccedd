//! Agents and control planes that die, over and over: traffic does not notice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use weft_e2e::mesh::{PORT, TARGET, ports_of, status, vip_addresses, vips};
use weft_e2e::stats::{assert_even, by_server};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::probe::Summary;
use weft_lab::{
    GetOptions, Lab, LabBuilder, LoadOptions, Place, PodSpec, ServeOptions, Weft, WeftOptions,
};

const KILLS: u32 = 50;
/// Length of one run of the load; runs follow each other without a pause.
const RUN: Duration = Duration::from_secs(5);

fn one_node() -> LabBuilder {
    Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("a", "n1").label("app", "web"))
        .pod(PodSpec::new("b", "n1").label("app", "web"))
}

fn web(index: u16, name: &str) -> ServiceManifest {
    ServiceManifest::new(name)
        .cluster_ips(vip_addresses(index))
        .port(ServicePort::tcp(PORT).named("tcp").to(TARGET))
        .port(ServicePort::udp(PORT).named("udp").to(TARGET))
        .selector("app", "web")
}

/// Loads a place in every way until told to stop; the sums of all runs.
fn constant_load(place: &Place, done: &AtomicBool) -> Result<Vec<Summary>> {
    let mut sums = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let udp = LoadOptions {
            udp: true,
            ..LoadOptions::connects(100, RUN)
        };
        let loads = [
            place.load(vips(0)[0], &LoadOptions::connects(200, RUN))?,
            place.load(vips(0)[1], &LoadOptions::connects(100, RUN))?,
            place.load(vips(0)[0], &LoadOptions::requests(200, RUN))?,
            place.load(vips(0)[1], &udp)?,
        ];
        for load in loads {
            sums.push(load.finish()?);
        }
    }
    Ok(sums)
}

#[test]
fn killing_the_agent_fifty_times_under_load_fails_no_request() -> Result {
    let mut mesh = Mesh::start(one_node())?;
    mesh.serve(&["a", "b"])?;
    mesh.service(&web(0, "web"), 2)?;
    let place = mesh.pod("client")?.place().clone();
    let client = mesh.pod("client")?;
    let done = AtomicBool::new(false);
    let sums = thread::scope(|scope| -> Result<Vec<Summary>> {
        let load = scope.spawn(|| constant_load(&place, &done));
        let killed = (|| -> Result {
            let weft = mesh.weft("n1")?;
            for kill in 0..KILLS {
                // At every stage: while it loads, adopts, syncs, and when all is done.
                if kill % 5 == 4 {
                    weft.wait_ready(LONG)
                        .with_context(|| format!("after kill {kill}"))?;
                } else {
                    thread::sleep(Duration::from_millis(u64::from(kill * 37 % 400)));
                }
                weft.restart()?;
            }
            weft.wait_ready(LONG)?;
            Ok(())
        })();
        done.store(true, Ordering::Relaxed);
        let sums = load
            .join()
            .map_err(|_| anyhow::anyhow!("the load panicked"))?;
        killed.and(sums)
    })?;
    let requests: u64 = sums.iter().map(|s| s.requests).sum();
    assert!(requests > 1000, "hardly a load: {requests} requests");
    for sum in &sums {
        assert_eq!(sum.failed, 0, "{sum:?}");
    }

    // The last one is in charge: changes take effect.
    mesh.service(&web(1, "other"), 2)?;
    assert_even(
        &by_server(&client.get(vips(1)[0], &GetOptions::tcp(60))?),
        &["a", "b"],
    );
    Ok(())
}

#[test]
fn traffic_goes_on_without_any_agent() -> Result {
    let mut mesh = Mesh::start(one_node())?;
    mesh.serve(&["a", "b"])?;
    mesh.service(&web(0, "web"), 2)?;
    mesh.weft("n1")?.stop()?;
    let client = mesh.pod("client")?;
    for vip in vips(0) {
        for options in [GetOptions::tcp(60), GetOptions::udp(60)] {
            assert_even(&by_server(&client.get(vip, &options)?), &["a", "b"]);
        }
    }
    // What changed meanwhile is made up for.
    mesh.lab.manifests().remove("pod-b")?;
    let held: Vec<_> = (0..8)
        .map(|_| client.hold(vips(0)[0], false, Duration::from_secs(20)))
        .collect::<Result<_, _>>()?;
    mesh.weft("n1")?.restart()?;
    mesh.weft("n1")?.wait_ready(LONG)?;
    mesh.wait_ready_backends("default/web", 1)?;
    let attempts = client.get(vips(0)[0], &GetOptions::tcp(20))?;
    assert_eq!(by_server(&attempts).get("a"), Some(&20));
    // Connections to the backend that had gone are closed by the agent that comes back.
    for hold in held {
        if hold.server().as_deref() == Some("b") {
            assert!(hold.finish()?.broken);
        }
    }
    Ok(())
}

#[test]
fn a_control_plane_that_comes_and_goes_deletes_nothing() -> Result {
    let lab = Lab::builder()
        .node("n1")
        .node("n2")
        .pod(PodSpec::new("client", "n2"))
        .pod(PodSpec::new("a", "n1").label("app", "web"))
        .pod(PodSpec::new("b", "n2").label("app", "web"))
        .build()?;
    lab.publish()?;
    lab.manifests().write("service", &web(0, "web").yaml())?;
    let _servers = ["a", "b"]
        .iter()
        .map(|name| {
            Ok(lab
                .pod(name)?
                .serve(&ServeOptions::tcp(TARGET).and_udp(TARGET))?)
        })
        .collect::<Result<Vec<_>>>()?;
    let n1 = lab.node("n1")?;
    let mut control = Weft::control(&n1, lab.manifests(), 15010, WeftOptions::default())?;
    let address = format!("{}:15010", n1.addresses().v4);
    let agents = lab
        .nodes()
        .iter()
        .map(|node| Weft::agent(node, &address, WeftOptions::default()))
        .collect::<Result<Vec<_>, _>>()?;
    for agent in &agents {
        agent.wait_ready(LONG)?;
    }
    let client = lab.pod("client")?;
    assert_even(
        &by_server(&client.get(vips(0)[0], &GetOptions::tcp(60))?),
        &["a", "b"],
    );

    let load = client.load(
        vips(0)[0],
        &LoadOptions::connects(200, Duration::from_secs(8)),
    )?;
    for flap in 0..8 {
        thread::sleep(Duration::from_millis(200 + 70 * flap));
        control.restart()?;
    }
    control.kill9();
    let sum = load.finish()?;
    assert_eq!(sum.failed, 0, "{sum:?}");
    assert!(sum.requests > 500, "{sum:?}");
    for agent in &agents {
        assert!(!ports_of(agent, "default/web")?.is_empty());
        let status = status(agent)?;
        assert_eq!(status["connected"], false, "{status:#}");
        assert_eq!(status["synced"], true, "{status:#}");
    }

    // Back again: changes arrive.
    control.restart()?;
    lab.manifests().write("other", &web(1, "other").yaml())?;
    for agent in &agents {
        eventually(LONG, || {
            ensure!(
                !ports_of(agent, "default/other")?.is_empty(),
                "not there yet"
            );
            Ok(())
        })?;
    }
    eventually(LONG, || {
        let attempts = client.get(vips(1)[0], &GetOptions::tcp(1))?;
        ensure!(attempts.iter().all(|a| a.ok()), "{attempts:?}");
        Ok(())
    })
}

/// A control plane on `n1` and an agent on `n2`, ready.
fn apart() -> Result<(Lab, Weft, Weft)> {
    let lab = Lab::builder()
        .node("n1")
        .node("n2")
        .pod(PodSpec::new("client", "n2"))
        .pod(PodSpec::new("a", "n2").label("app", "web"))
        .build()?;
    lab.publish()?;
    lab.manifests().write("service", &web(0, "web").yaml())?;
    let (n1, n2) = (lab.node("n1")?, lab.node("n2")?);
    let control = Weft::control(&n1, lab.manifests(), 15010, WeftOptions::default())?;
    let address = format!("{}:15010", n1.addresses().v4);
    let agent = Weft::agent(&n2, &address, WeftOptions::default())?;
    agent.wait_ready(LONG)?;
    Ok((lab, control, agent))
}

#[test]
fn a_half_open_stream_is_noticed_and_replaced() -> Result {
    let (lab, _control, agent) = apart()?;
    let _server = lab.pod("a")?.serve(&ServeOptions::tcp(TARGET))?;
    let n1 = lab.node("n1")?;
    // Neither side hears anything any more, and nobody says so.
    n1.netns().ip(&format!("link set {} down\n", n1.uplink()))?;
    eventually(Duration::from_secs(60), || {
        let status = status(&agent)?;
        ensure!(status["connected"] == false, "still taken for connected");
        Ok(())
    })?;
    let attempts = lab.pod("client")?.get(vips(0)[0], &GetOptions::tcp(20))?;
    assert_eq!(by_server(&attempts).get("a"), Some(&20));
    lab.manifests().write("other", &web(1, "other").yaml())?;
    n1.netns().ip(&format!("link set {} up\n", n1.uplink()))?;
    eventually(Duration::from_secs(60), || {
        ensure!(
            !ports_of(&agent, "default/other")?.is_empty(),
            "not there yet"
        );
        Ok(())
    })
}
