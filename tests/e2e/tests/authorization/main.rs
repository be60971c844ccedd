//! AuthorizationPolicy at layer 7: asked by the real Envoy of the destination's node, with real clients, on one node and between nodes.

mod evasion;
mod node;
mod protocols;
mod rules;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::http::{curl, service, start};
use weft_e2e::mesh::{TARGET, vips};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::{DualStack, GetOptions, Lab, LabBuilder, Node, Pod, PodSpec, Process, ServeOptions};

fn pods() -> LabBuilder {
    let pod = |name: &str, node: &str, app: &str| PodSpec::new(name, node).label("app", app);
    Lab::builder()
        .node("n1")
        .node("n2")
        .pod(pod("client", "n1", "client").service_account("shopper"))
        .pod(pod("stranger", "n1", "stranger").service_account("stranger"))
        .pod(pod("near", "n1", "near").label("role", "server"))
        .pod(pod("far", "n2", "far").label("role", "server"))
}

const SERVERS: [&str; 2] = ["near", "far"];

/// Services near and far, of one pod each.
fn mesh() -> Result<(Mesh, Vec<Process>)> {
    let (mesh, servers) = start(pods(), &SERVERS)?;
    for (name, index) in [("near", 1), ("far", 2)] {
        mesh.service(&service(name, index), 1)?;
    }
    Ok((mesh, servers))
}

fn policy(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  selector: {{matchLabels: {{role: server}}}}
{spec}"
    )
}

/// Every way to reach `path` of a server: its own address and its service's, over IPv4 and IPv6.
fn ways(mesh: &Mesh, server: &str, path: &str) -> Result<Vec<String>> {
    let pod = mesh.pod(server)?.addresses().sockets(TARGET);
    let index = if server == "near" { 1 } else { 2 };
    let all = pod.into_iter().chain(vips(index));
    Ok(all.map(|socket| format!("http://{socket}{path}")).collect())
}

/// Waits until every way to both servers answers so.
fn wait_all(mesh: &Mesh, pod: &Pod, path: &str, args: &[&str], status: u16) -> Result {
    for server in SERVERS {
        for url in ways(mesh, server, path)? {
            eventually(LONG, || {
                let answer = curl(pod, &url, &[&["--max-time", "3"], args].concat())?;
                ensure!(
                    answer.status == status,
                    "{url}: {status} expected: {answer:?}"
                );
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Envoy has taken everything it was sent.
fn nothing_refused(node: &Node) -> Result {
    let admin = node.run_dir().join("envoy/admin.sock");
    let curl = node
        .command("curl")
        .args(["-sS", "-g", "--unix-socket"])
        .arg(admin);
    let stats = curl
        .arg("http://envoy/stats?filter=update_")
        .run(LONG)?
        .success()?
        .stdout;
    let refused = stats
        .lines()
        .filter(|line| line.contains("update_rejected"));
    for line in refused {
        ensure!(line.ends_with(": 0"), "{line}");
    }
    ensure!(stats.contains("update_success"), "{stats}");
    Ok(())
}

#[test]
fn a_method_is_refused_on_one_node_and_between_nodes() -> Result {
    let (mesh, _servers) = mesh()?;
    mesh.apply(
        "policy",
        &policy("read", "  rules: [{to: [{operation: {methods: [GET]}}]}]\n"),
    )?;
    let client = mesh.pod("client")?;
    wait_all(&mesh, &client, "/x", &["-X", "POST"], 403)?;
    wait_all(&mesh, &client, "/x", &[], 200)?;
    let own = client.addresses();
    for server in SERVERS {
        for url in ways(&mesh, server, "/seen?q=1")? {
            let answer = curl(&client, &url, &[])?;
            let seen = answer.seen()?;
            ensure!(
                seen["server"] == server && seen["path"] == "/seen?q=1",
                "{answer:?}"
            );
            let address = if url.contains('[') {
                own.v6.to_string()
            } else {
                own.v4.to_string()
            };
            ensure!(
                seen["client"] == address,
                "the client's own address: {answer:?}"
            );
            let refused = curl(&client, &url, &["-X", "DELETE"])?;
            ensure!(refused.status == 403, "{refused:?}");
            ensure!(refused.body.contains("RBAC"), "{refused:?}");
        }
    }
    for node in mesh.lab.nodes() {
        nothing_refused(node)?;
    }
    Ok(())
}
