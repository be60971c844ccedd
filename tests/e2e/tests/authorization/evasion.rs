//! Ways past Envoy, and what they come to.

use super::*;

const READ: &str =
    "  rules: [{to: [{operation: {methods: [GET], notPaths: [/admin, /admin/*]}}]}]\n";

/// From the node's own network namespace, as a process of the node or a pod of the host network.
fn from_node(node: &Node, url: &str, args: &[&str]) -> Result<String> {
    let curl = node
        .command("curl")
        .args(["-s", "-o", "/dev/null", "-g", "--max-time", "3"]);
    let output = curl
        .args(["-w", "%{http_code}"])
        .args(args)
        .arg(url)
        .run(LONG)?;
    Ok(output.stdout)
}

#[test]
fn the_nodes_own_processes_do_not_go_round_envoy() -> Result {
    let (mesh, _servers) = mesh()?;
    mesh.apply("policy", &policy("read", READ))?;
    let client = mesh.pod("client")?;
    wait_all(&mesh, &client, "/x", &["-X", "POST"], 403)?;
    for name in ["n1", "n2"] {
        let node = mesh.lab.node(name)?;
        for server in SERVERS {
            for url in ways(&mesh, server, "/x")? {
                eventually(LONG, || {
                    let refused = from_node(&node, &url, &["-X", "POST"])?;
                    ensure!(refused == "403", "{name} to {url}: {refused}");
                    let read = from_node(&node, &url, &[])?;
                    ensure!(read == "200", "{name} to {url}: {read}");
                    Ok(())
                })?;
            }
        }
    }
    // It is nobody whom a rule could name; what asks about no request it reaches as ever.
    let only_client = "  rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/shopper]}}], to: [{operation: {methods: [GET], ports: ['8080']}}]}]\n";
    mesh.apply("policy", &policy("read", only_client))?;
    let node = mesh.lab.node("n1")?;
    let near = mesh.pod("near")?;
    let _other = near.serve(&ServeOptions::tcp(9000))?;
    eventually(LONG, || {
        let read = from_node(&node, &format!("http://{}/x", near.socket_v4(TARGET)), &[])?;
        ensure!(read == "403", "{read}");
        Ok(())
    })?;
    let once = GetOptions::tcp(1).timeout(Duration::from_secs(2));
    let attempts = node.get(near.socket_v4(9000), &once)?;
    ensure!(attempts.iter().any(|a| a.server.is_some()), "{attempts:?}");
    Ok(())
}

#[test]
fn a_pod_does_not_pass_for_envoy() -> Result {
    let (mesh, _servers) = mesh()?;
    mesh.apply("policy", &policy("read", READ))?;
    let client = mesh.pod("client")?;
    wait_all(&mesh, &client, "/x", &["-X", "POST"], 403)?;
    // Envoy's ports: nobody but its own node's programs reaches them.
    for name in ["n1", "n2"] {
        let DualStack { v4, v6 } = mesh.lab.node(name)?.addresses();
        for port in [15001, 15006, 15008] {
            for host in [v4.to_string(), format!("[{v6}]"), "127.0.0.1".to_owned()] {
                let url = format!("http://{host}:{port}/x");
                let answer = curl(&client, &url, &["--max-time", "2"])?;
                ensure!(answer.status == 0, "{url}: {answer:?}");
            }
        }
    }
    // Envoy's marks, which root may set in a pod: they mean nothing outside of it.
    let script = "import socket,sys
s=socket.socket(); s.setsockopt(socket.SOL_SOCKET,36,int(sys.argv[2],0)); s.settimeout(3)
s.connect((sys.argv[1],8080)); s.sendall(b'POST /x HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n')
print(s.recv(99)[:12].decode())";
    for server in SERVERS {
        let address = mesh.pod(server)?.addresses().v4.to_string();
        for mark in ["0x5eed0000", "0x5eed0001", "0x5eed0002"] {
            let asked = client.command("/usr/bin/python3");
            let answer = asked.args(["-c", script, &address, mark]).run(LONG)?;
            ensure!(
                !answer.stdout.contains("200"),
                "{mark} to {server}: {answer:?}"
            );
        }
    }
    Ok(())
}

/// What Envoy judges is what the server gets, however it is written.
#[test]
fn paths_are_judged_as_the_server_sees_them() -> Result {
    let (mesh, _servers) = mesh()?;
    mesh.apply("policy", &policy("read", READ))?;
    let client = mesh.pod("client")?;
    wait_all(&mesh, &client, "/x", &["-X", "POST"], 403)?;
    wait_all(&mesh, &client, "/x", &[], 200)?;
    let near = mesh.pod("near")?.socket_v4(TARGET);
    for path in [
        "/admin",
        "/admin/",
        "/admin/x?q",
        "//admin",
        "/./admin",
        "/x/../admin",
        "/x/%2e%2e/admin",
        "/%61dmin",
        "/x%2f..%2fadmin",
        "/admin%2fx",
    ] {
        let url = format!("http://{near}{path}");
        let answer = curl(&client, &url, &["--path-as-is"])?;
        ensure!(
            answer.status == 403 || answer.status == 400,
            "{path}: {answer:?}"
        );
    }
    // Only the name that Envoy knows counts, not what the request says of its client.
    let forged = ["-H", "X-Forwarded-For: 10.0.0.1", "-X", "POST"];
    ensure!(curl(&client, &format!("http://{near}/x"), &forged)?.status == 403);
    Ok(())
}
