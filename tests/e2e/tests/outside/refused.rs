//! Who is not served, and how it is told.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use weft_e2e::mesh::PORT;
use weft_e2e::stats::by_server;
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};
use weft_lab::GetOptions;
use weft_lab::probe::Attempt;

use super::site::{BEHIND, OUTSIDE, Site, external};

/// Nobody answers: the time after which that is believed.
const SILENCE: Duration = Duration::from_millis(800);
const HEALTH_PORT: u16 = 32_100;

/// `externalTrafficPolicy: Local` in a service's spec.
fn local() -> Value {
    json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": HEALTH_PORT})
}

fn both(count: u32) -> [GetOptions; 2] {
    [GetOptions::tcp(count), GetOptions::udp(count)]
}

/// Reasons of the flows that a node has refused.
fn reasons(site: &mut Site, node: &str) -> Result<Vec<String>> {
    let args = [
        "flows",
        "--last",
        "1000",
        "--verdict",
        "denied",
        "-o",
        "json",
    ];
    let flows: Vec<Value> = site.mesh.weft(node)?.cli(&args)?.success()?.json_lines()?;
    let reasons = flows.iter().filter_map(|flow| flow["reason"].as_str());
    Ok(reasons.map(ToOwned::to_owned).collect())
}

#[test]
fn local_traffic_stays_on_its_node_and_keeps_its_source() -> Result {
    let site = Site::start()?;
    site.service(&local(), &[], 3)?;
    let client = site.addresses_of(OUTSIDE)?;
    for (node, servers) in [("n1", &["near"][..]), ("n2", &["far", "farther"])] {
        for at in site.node_ports(node)? {
            for options in both(30) {
                let attempts = site.client()?.get(at, &options)?;
                let answered = by_server(&attempts);
                assert_eq!(answered.keys().collect::<Vec<_>>(), servers, "{at}");
                for attempt in attempts {
                    let seen = attempt.seen_as.map(|a| a.ip());
                    assert!(
                        client.both().iter().any(|ip| Some(*ip) == seen),
                        "{attempt:?}"
                    );
                }
            }
        }
    }
    Ok(())
}

/// What a node answers at the port for health checks: status and number of backends.
fn health(site: &Site, node: &str) -> Result<(String, Value)> {
    let at = SocketAddr::new(site.addresses_of(node)?.v4.into(), HEALTH_PORT);
    let url = format!("http://{at}/healthz");
    let args = ["-s", "-m", "5", "-w", "\n%{http_code}", &url];
    let output = site
        .client()?
        .command("curl")
        .args(args)
        .run(LONG)?
        .success()?;
    let (body, status) = output.stdout.trim().rsplit_once('\n').unwrap_or_default();
    Ok((status.to_owned(), serde_json::from_str(body)?))
}

#[test]
fn balancers_are_told_which_node_has_backends_and_the_others_keep_silent() -> Result {
    let site = Site::start()?;
    site.service(&local(), &[], 3)?;
    let told = |node: &str| -> Result<_> {
        let (status, body) = health(&site, node)?;
        assert_eq!(
            body["service"],
            json!({"namespace": "default", "name": "web"})
        );
        Ok((status, body["localEndpoints"].as_u64()))
    };
    assert_eq!(told("n1")?, ("200".to_owned(), Some(1)));
    assert_eq!(told("n2")?, ("200".to_owned(), Some(2)));

    // The only backend of a node is not ready any more.
    let mut pod = site.mesh.pod("near")?.manifest().value();
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    site.mesh.apply("pod-near", &pod.to_string())?;
    eventually(LONG, || {
        let now = told("n1")?;
        ensure!(now == ("503".to_owned(), Some(0)), "{now:?}");
        Ok(())
    })?;
    assert_eq!(told("n2")?, ("200".to_owned(), Some(2)));
    for at in site.node_ports("n1")? {
        for options in both(2) {
            let attempts = site.client()?.get(at, &options.timeout(SILENCE))?;
            for attempt in attempts {
                assert_eq!(attempt.errno.as_deref(), Some("TIMEOUT"), "{attempt:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn without_backends_node_ports_refuse_at_once() -> Result {
    let mut site = Site::start()?;
    site.service(&json!({"selector": {"app": "none"}}), &[], 0)?;
    for at in site.node_ports("n1")? {
        for attempt in site.client()?.get(at, &GetOptions::tcp(3))? {
            assert_eq!(
                attempt.errno.as_deref(),
                Some("ECONNREFUSED"),
                "{attempt:?}"
            );
        }
        for attempt in site.client()?.get(at, &GetOptions::udp_connected(3))? {
            assert_eq!(
                attempt.errno.as_deref(),
                Some("ECONNREFUSED"),
                "{attempt:?}"
            );
        }
    }
    eventually(LONG, || {
        let reasons = reasons(&mut site, "n1")?;
        ensure!(reasons.iter().any(|r| r == "no-backend"), "{reasons:?}");
        Ok(())
    })
}

/// Whether both kinds of sockets are answered from where the machine outside is, and from the network behind it.
fn answered(site: &Site, at: SocketAddr) -> Result<[bool; 2]> {
    let behind = site.mesh.pod(BEHIND)?;
    let mut found = [true; 2];
    for options in both(2) {
        let options = options.timeout(SILENCE);
        let near = site.client()?.get(at, &options)?;
        let far = behind.get(at, &options)?;
        found[0] &= near.iter().all(Attempt::ok);
        found[1] &= far.iter().all(Attempt::ok);
    }
    Ok(found)
}

#[test]
fn source_ranges_let_in_whom_they_name_at_the_balancers_addresses() -> Result {
    let mut site = Site::start()?;
    let balancer = external(2);
    for address in balancer {
        site.route(address, "n1")?;
    }
    let machine = site.addresses_of(OUTSIDE)?;
    let ranges = |ranges: Value| json!({"loadBalancerSourceRanges": ranges});
    let machines = [format!("{}/32", machine.v4), format!("{}/128", machine.v6)];
    let everybody = ["0.0.0.0/0", "::/0"];
    // What the ranges are, and who is let in.
    let steps = [
        (ranges(json!(machines)), [true, false]),
        (
            ranges(json!(["10.244.0.0/16", "fd00:244::/32"])),
            [false, true],
        ),
        (ranges(json!(everybody)), [true, true]),
        (ranges(json!(["203.0.113.0/24"])), [false, false]),
        (json!({}), [true, true]),
    ];
    for (fields, expected) in steps {
        site.service(&fields, &balancer, 3)?;
        eventually(LONG, || {
            for address in balancer {
                let at = SocketAddr::new(address, PORT);
                let now = answered(&site, at)?;
                ensure!(now == expected, "{fields} at {at}: {now:?}");
            }
            Ok(())
        })?;
        // They say nothing about node ports.
        for at in site.node_ports("n1")? {
            assert_eq!(answered(&site, at)?, [true, true], "{fields} at {at}");
        }
    }
    let reasons = reasons(&mut site, "n1")?;
    assert!(reasons.iter().any(|r| r == "source-range"), "{reasons:?}");
    Ok(())
}

const FROM_THE_MACHINE: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: machine, namespace: default}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
  - from: [{ipBlock: {cidr: 10.201.0.3/32}}, {ipBlock: {cidr: 'fd00:201::3/128'}}]
";

/// A backend on the node that was asked is judged by its client's own address, wherever that is.
#[test]
fn policies_know_clients_outside_by_their_addresses() -> Result {
    let mut site = Site::start()?;
    site.service(&local(), &[], 3)?;
    assert_eq!(
        site.addresses_of(OUTSIDE)?.v4,
        IpAddr::from([10, 201, 0, 3])
    );
    site.mesh.apply("policies", FROM_THE_MACHINE)?;
    for node in ["n1", "n2"] {
        for at in site.node_ports(node)? {
            eventually(LONG, || {
                let now = answered(&site, at)?;
                ensure!(now == [true, false], "{at}: {now:?}");
                Ok(())
            })?;
        }
    }
    let reasons = reasons(&mut site, "n1")?;
    assert!(reasons.iter().any(|r| r == "isolated"), "{reasons:?}");
    Ok(())
}

/// A TrafficPolicy for the service.
fn limits(site: &Site, limits: &Value) -> Result {
    let policy = json!({
        "apiVersion": "weft.io/v1alpha1",
        "kind": "TrafficPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"targetRefs": [{"kind": "Service", "name": "web"}], "limits": limits},
    });
    site.mesh.apply("limits", &policy.to_string())?;
    let (name, value) = limits.as_object().and_then(|l| l.iter().next()).unzip();
    let (name, value) = (name.cloned().unwrap_or_default(), value.cloned());
    eventually(LONG, || {
        for row in site.outside_rows("n1")? {
            ensure!(Some(&row["limits"][&name]) == value.as_ref(), "{row}");
        }
        Ok(())
    })
}

#[test]
fn limits_of_a_service_hold_for_clients_outside() -> Result {
    const MOST: usize = 3;
    let mut site = Site::start()?;
    site.service(&json!({}), &[], 3)?;
    limits(&site, &json!({"maxConnections": MOST}))?;
    let at = site.node_ports("n1")?[0];
    let client = site.client()?;
    let longest = Duration::from_secs(20);
    let held: Vec<_> = (0..MOST)
        .map(|_| client.hold_busy(at, longest))
        .collect::<Result<_, _>>()?;
    let refused = client.get(at, &GetOptions::tcp(2).timeout(SILENCE))?;
    assert!(refused.iter().all(|a| !a.ok()), "{refused:?}");
    drop(held);
    // Their places are free again as soon as they are closed.
    eventually(LONG, || {
        let attempts = client.get(at, &GetOptions::tcp(1).timeout(SILENCE))?;
        ensure!(attempts.iter().all(Attempt::ok), "{attempts:?}");
        Ok(())
    })?;
    limits(&site, &json!({"connectionsPerSecond": 5}))?;
    let attempts = client.get(at, &GetOptions::udp(40).timeout(Duration::from_millis(20)))?;
    let answered = attempts.iter().filter(|a| a.ok()).count();
    assert!((1..40).contains(&answered), "{answered}");
    let reasons = reasons(&mut site, "n1")?;
    for reason in ["connection-limit", "rate-limit"] {
        assert!(reasons.iter().any(|r| r == reason), "{reason}: {reasons:?}");
    }
    Ok(())
}
