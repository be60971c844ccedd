//! What people see of connections: flows, the connections that are open, and what would happen to new ones.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{GetOptions, Lab, Pod, PodSpec};

const POLICY: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: cart-ingress, namespace: shop}
spec:
  podSelector: {matchLabels: {app: cart}}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {matchLabels: {app: friend}}}]
      ports: [{port: 8080}]
";

/// A cart, a friend whom its policy lets in, and a probe that it does not; all on one node.
fn shop() -> Result<Mesh> {
    let pod = |name: &str| {
        PodSpec::new(name, "n1")
            .namespace("shop")
            .service_account(name)
            .label("app", name)
    };
    let pods = ["cart", "friend", "probe"].map(pod);
    let builder = pods
        .into_iter()
        .fold(Lab::builder().node("n1"), |b, p| b.pod(p));
    let mut mesh = Mesh::start(builder)?;
    mesh.serve(&["cart"])?;
    mesh.apply("cart-ingress", POLICY)?;
    let (probe, cart) = (mesh.pod("probe")?, cart(&mesh)?);
    eventually(LONG, || {
        ensure!(!asks(&probe, cart)?, "the probe is let in");
        Ok(())
    })?;
    // The policy may have come in the middle of that one, which was then ended instead of refused.
    ensure!(!asks(&probe, cart)?, "the probe is let in again");
    Ok(mesh)
}

fn cart(mesh: &Mesh) -> Result<SocketAddr> {
    Ok(mesh.pod("cart")?.socket_v4(TARGET))
}

/// Whether an answer came.
fn asks(pod: &Pod, to: SocketAddr) -> Result<bool> {
    let options = GetOptions::tcp(1).timeout(Duration::from_millis(500));
    let attempts = pod.get(to, &options)?;
    Ok(attempts.first().context("no attempt")?.ok())
}

/// The objects that a verb prints, one a line.
fn lines(mesh: &mut Mesh, args: &[&str]) -> Result<Vec<Value>> {
    let args = [args, &["-o", "json"]].concat();
    Ok(mesh.weft("n1")?.cli(&args)?.success()?.json_lines()?)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

fn number(value: &Value, pointer: &str) -> u64 {
    let found = value.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_default()
}

/// The newest flow from this pod with this event.
fn newest(mesh: &mut Mesh, from: &str, event: &str) -> Result<Value> {
    eventually(LONG, || {
        let flows = lines(mesh, &["flows", "--from", from, "--to", "shop/cart"])?;
        let wanted = flows
            .into_iter()
            .rfind(|flow| text(flow, "/event") == event);
        wanted.with_context(|| format!("no {event} of {from}"))
    })
}

#[test]
fn a_refused_connection_is_told_and_explained() -> Result {
    let mut mesh = shop()?;
    let flow = newest(&mut mesh, "shop/probe", "denied")?;
    for (pointer, expected) in [
        ("/direction", "ingress"),
        ("/protocol", "tcp"),
        ("/verdict", "denied"),
        ("/reason", "isolated"),
        ("/policy", "NetworkPolicy shop/cart-ingress"),
        ("/path", "kernel"),
        ("/tcpFlags", "SYN"),
        ("/source/namespace", "shop"),
        ("/source/pod", "probe"),
        ("/source/workload", "probe"),
        ("/source/serviceAccount", "probe"),
        ("/source/node", "n1"),
        ("/destination/pod", "cart"),
        ("/destination/node", "n1"),
    ] {
        assert_eq!(text(&flow, pointer), expected, "{pointer} of {flow:#}");
    }
    let why = "denied: NetworkPolicy shop/cart-ingress selects shop/cart and none of its rules lets TCP 8080 from shop/probe in";
    assert_eq!(text(&flow, "/message"), why);
    assert_eq!(number(&flow, "/destination/port"), u64::from(TARGET));
    let probe = mesh.pod("probe")?.addresses().v4;
    assert_eq!(text(&flow, "/source/address"), probe.to_string());
    assert!(number(&flow, "/source/identity") >= 16, "{flow:#}");

    let denied = lines(&mut mesh, &["flows", "--verdict", "denied"])?;
    assert!(
        denied.iter().all(|f| text(f, "/verdict") == "denied"),
        "{denied:#?}"
    );

    let weft = mesh.weft("n1")?;
    let answer = weft.cli_json(&["check", "shop/probe", "shop/cart:8080"])?;
    assert_eq!(text(&answer, "/verdict"), "denied", "{answer:#}");
    assert_eq!(text(&answer, "/answers/0/message"), why);
    let told = weft.cli(&["check", "shop/probe", "shop/cart:8080", "--exit-code"])?;
    assert_eq!(told.status.code(), Some(1), "{}", told.stdout);
    Ok(())
}

#[test]
fn an_allowed_connection_is_told_listed_and_counted() -> Result {
    let mut mesh = shop()?;
    let (friend, cart) = (mesh.pod("friend")?, cart(&mesh)?);
    let hold = friend.hold(cart, false, Duration::from_secs(3))?;
    let open = newest(&mut mesh, "shop/friend", "open")?;
    assert_eq!(text(&open, "/verdict"), "allowed", "{open:#}");
    let listed = lines(&mut mesh, &["conntrack", "--from", "shop/friend"])?;
    let [connection] = listed.as_slice() else {
        panic!("one connection was expected: {listed:#?}");
    };
    assert_eq!(text(connection, "/state"), "established");
    assert_eq!(
        text(connection, "/ingressPolicy"),
        "NetworkPolicy shop/cart-ingress"
    );
    hold.finish()?;

    let close = newest(&mut mesh, "shop/friend", "close")?;
    assert_eq!(text(&close, "/reason"), "fin", "{close:#}");
    assert!(number(&close, "/durationMs") >= 2_900, "{close:#}");
    for way in ["sent", "received"] {
        let bytes = number(&close, &format!("/bytes/{way}"));
        let packets = number(&close, &format!("/packets/{way}"));
        // A handshake, a request or an answer, and a good-bye: headers of 52 bytes, and less than one full packet of text.
        assert!((3..20).contains(&packets), "{close:#}");
        let headers = 52 * packets;
        assert!((headers..headers + 1_000).contains(&bytes), "{close:#}");
    }
    eventually(LONG, || {
        let left = lines(&mut mesh, &["conntrack", "--from", "shop/friend"])?;
        ensure!(left.is_empty(), "still remembered: {left:#?}");
        Ok(())
    })?;

    let weft = mesh.weft("n1")?;
    let answer = weft.cli_json(&["check", "shop/friend", "shop/cart:8080"])?;
    assert_eq!(text(&answer, "/verdict"), "allowed", "{answer:#}");
    let ingress = answer.pointer("/answers/0/ingress").context("no side")?;
    assert_eq!(text(ingress, "/policy"), "NetworkPolicy shop/cart-ingress");
    let policies = weft.cli_json(&["policies"])?;
    assert_eq!(
        policies.pointer("/0/pods"),
        Some(&json!(["shop/cart"])),
        "{policies:#}"
    );
    Ok(())
}

#[test]
fn an_idle_connection_expires_and_is_told() -> Result {
    let mut mesh = shop()?;
    let service = ServiceManifest::new("cart")
        .namespace("shop")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "cart");
    mesh.service(&service, 1)?;
    let traffic = "\
apiVersion: weft.io/v1alpha1
kind: TrafficPolicy
metadata: {name: cart, namespace: shop}
spec:
  targetRefs: [{kind: Service, name: cart}]
  timeouts: {idle: 2s}
";
    mesh.apply("cart-timeouts", traffic)?;
    let friend = mesh.pod("friend")?;
    let [vip, _] = vips(0);
    // Connections that were opened before the timeouts came do not have them.
    let held = eventually(LONG, || {
        let hold = friend.hold(vip, false, Duration::from_secs(6))?;
        let held = hold.finish()?;
        ensure!(held.broken, "it was not closed: {held:?}");
        Ok(held)
    })?;
    let broken = held.broken_ns.context("when?")?;
    let lived = Duration::from_nanos(broken - held.since_ns);
    assert!((2.0..4.5).contains(&lived.as_secs_f64()), "{lived:?}");
    let expired = newest(&mut mesh, "shop/friend", "expired")?;
    assert_eq!(text(&expired, "/reason"), "idle-timeout", "{expired:#}");
    assert_eq!(text(&expired, "/service"), "shop/cart", "{expired:#}");
    Ok(())
}
