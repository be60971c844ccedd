//! Certificates of workloads: who gets which, what they are worth to others, and what rotation does to connections.

mod nodes;
mod rotation;

use std::time::Duration;

use anyhow::ensure;
use weft_e2e::certificates::{Verifier, sds_socket, secret, secrets, spiffe_id, wait_certificates};
use weft_e2e::http::with_envoy;
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::{Lab, LabBuilder, PodSpec};

/// Nothing comes within this time when nothing is to come.
const SILENCE: Duration = Duration::from_millis(700);

fn pods() -> LabBuilder {
    let pod =
        |name: &str, node: &str, account: &str| PodSpec::new(name, node).service_account(account);
    Lab::builder()
        .node("n1")
        .node("n2")
        .pod(pod("web", "n1", "web"))
        .pod(pod("web-too", "n1", "web"))
        .pod(pod("cart", "n1", "cart"))
        .pod(pod("pay", "n2", "pay"))
}

#[test]
fn go_spiffe_accepts_them_and_refuses_what_is_not_right() -> Result {
    let verifier = Verifier::build()?;
    let mut mesh = Mesh::start_with(pods(), &with_envoy())?;
    let before = wait_certificates(mesh.weft("n1")?, &["cart", "web"])?;
    ensure!(before.len() == 2, "{before:?}");
    wait_certificates(mesh.weft("n2")?, &["pay"])?;
    let node = mesh.lab.node("n1")?;
    let web = verifier.file("web", &secret(&node, &spiffe_id("web"))?)?;
    let cart = verifier.file("cart", &secret(&node, &spiffe_id("cart"))?)?;
    let bundle = verifier.file("bundle", &secret(&node, "ROOTCA")?)?;
    let other = verifier.file("other", &secret(&mesh.lab.node("n2")?, "ROOTCA")?)?;

    let with = |verb: &str, bundle: &str, domain: &str, more: &[&str]| {
        let common = [
            verb,
            "--bundle",
            bundle,
            "--trust-domain",
            domain,
            "--svid",
            &web,
        ];
        verifier.run(&[&common, more].concat())
    };
    let domain = "cluster.local";
    let said = with("svid", &bundle, domain, &[])?;
    ensure!(said == format!("ok {}", spiffe_id("web")), "{said}");
    let peers = |id: &str| {
        let expect = spiffe_id(id);
        with(
            "mtls",
            &bundle,
            domain,
            &["--peer", &cart, "--expect", &expect],
        )
    };
    peers("cart")?;
    // A clock that is four minutes behind is no reason to refuse.
    let mut date = std::process::Command::new("date");
    let ago = date.args(["-u", "-d", "-4 min", "+%FT%TZ"]).output()?;
    let ago = String::from_utf8(ago.stdout)?;
    with("svid", &bundle, domain, &["--at", ago.trim()])?;
    for (what, said) in [
        (
            "wrong trust domain",
            with("svid", &bundle, "other.example", &[]),
        ),
        // Each node's control plane is one of its own here: another mesh's CA.
        ("another CA", with("svid", &other, domain, &[])),
        (
            "expired",
            with("svid", &bundle, domain, &["--at", "2099-01-01T00:00:00Z"]),
        ),
        (
            "not yet valid",
            with("svid", &bundle, domain, &["--at", "2020-01-01T00:00:00Z"]),
        ),
        ("wrong identity", peers("web")),
    ] {
        ensure!(said.is_err(), "{what}: {said:?}");
    }
    // Nobody else's, and no name that is none.
    for name in [spiffe_id("pay"), "default".to_owned(), String::new()] {
        let found = secrets(&sds_socket(&node), &[&name], SILENCE)?;
        ensure!(found.is_empty(), "{name}: {found:?}");
    }
    pods_come_and_go(&mut mesh)
}

fn pods_come_and_go(mesh: &mut Mesh) -> Result {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: late, namespace: default}\n\
        spec: {nodeName: n1, serviceAccountName: late}\nstatus: {podIP: 10.99.0.9, podIPs: [{ip: 10.99.0.9}]}\n";
    mesh.apply("late", pod)?;
    wait_certificates(mesh.weft("n1")?, &["cart", "late", "web"])?;
    mesh.lab.manifests().remove("late")?;
    wait_certificates(mesh.weft("n1")?, &["cart", "web"])?;
    let node = mesh.lab.node("n1")?;
    eventually(LONG, || {
        let found = secrets(&sds_socket(&node), &[&spiffe_id("late")], SILENCE)?;
        ensure!(found.is_empty(), "its key is still there: {found:?}");
        Ok(())
    })
}
