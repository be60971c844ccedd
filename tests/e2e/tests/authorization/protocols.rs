//! HTTP/2, gRPC and WebSocket to a pod whose policy Envoy asks.

use super::*;

/// The server's port for HTTP/2.
const H2: u16 = 8081;
const WEBSOCKET: &str = "import socket,sys,time
s=socket.create_connection((sys.argv[1],8080),5)
s.sendall(b'GET '+sys.argv[2].encode()+b' HTTP/1.1\\r\\nHost: x\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n')
print(s.recv(4096)[:12].decode())
for word in (b'one', b'two'):
    s.sendall(word); print(s.recv(4096).decode()); time.sleep(0.2)
";

#[test]
fn http2_grpc_and_websocket() -> Result {
    let (mesh, _servers) = mesh()?;
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/h2_server.json");
    let server = mesh.pod("far")?.command(weft_e2e::http::envoy());
    let server = server.args([
        "--disable-hot-restart",
        "--concurrency",
        "1",
        "-l",
        "error",
        "-c",
    ]);
    let _h2 = server.arg(&fixture).spawn()?;
    mesh.apply(
        "policy",
        &policy(
            "some",
            "  rules: [{to: [{operation: {paths: [/shop.v1.Cart/Add, /two, /socket], notMethods: [PUT]}}]}]\n",
        ),
    )?;
    let client = mesh.pod("client")?;
    wait_all(&mesh, &client, "/two", &["-X", "PUT"], 403)?;
    let far = mesh.pod("far")?;
    for socket in far.addresses().sockets(H2) {
        let two = format!("http://{socket}/two");
        eventually(LONG, || {
            let one = curl(&client, &two, &["--http1.1"])?;
            ensure!(one.header("x-protocol") == Some("HTTP/1.1"), "{one:?}");
            Ok(())
        })?;
        let plain = ["--http2-prior-knowledge"];
        let answer = curl(&client, &two, &plain)?;
        ensure!(answer.header("x-protocol") == Some("HTTP/2"), "{answer:?}");
        let refused = curl(&client, &format!("http://{socket}/three"), &plain)?;
        ensure!(refused.status == 403, "{refused:?}");
        // Without a message: an Envoy that answers at once, as the server and the one that refuses do, resets the stream of a client
        // that is still sending, which curl takes for an error.
        let grpc = [
            "--http2-prior-knowledge",
            "-H",
            "content-type: application/grpc",
            "-H",
            "te: trailers",
            "--data-binary",
            "",
        ];
        let call = |path: &str| curl(&client, &format!("http://{socket}{path}"), &grpc);
        let add = call("/shop.v1.Cart/Add")?;
        ensure!(add.header("grpc-status") == Some("0"), "{add:?}");
        // 7 is PERMISSION_DENIED.
        let remove = call("/shop.v1.Cart/Remove")?;
        ensure!(remove.header("grpc-status") == Some("7"), "{remove:?}");
    }
    for server in SERVERS {
        let address = mesh.pod(server)?.addresses().v4.to_string();
        let ask = |path: &str| {
            let socket = client.command("/usr/bin/python3").args(["-c", WEBSOCKET]);
            socket.args([&address, path]).run(LONG)
        };
        let said = ask("/socket")?.success()?.stdout;
        ensure!(
            said.contains("101") && said.contains(&format!("{server}:two")),
            "{said}"
        );
        ensure!(ask("/other")?.stdout.contains("403"), "{server}");
    }
    Ok(())
}

/// A policy in audit mode is asked exactly where another one brings requests to Envoy, and told as it would have judged.
#[test]
fn an_audited_policy_tells_and_refuses_nothing() -> Result {
    let (mesh, _servers) = mesh()?;
    mesh.apply(
        "policy",
        &policy(
            "read",
            "  rules: [{to: [{operation: {methods: [GET, POST]}}]}]\n",
        ),
    )?;
    let audited = policy(
        "no-posts",
        "  action: DENY\n  rules: [{to: [{operation: {methods: [POST]}}]}]\n",
    );
    let audited = audited.replace(
        "namespace: default}",
        "namespace: default, annotations: {weft.io/mode: Audit}}",
    );
    mesh.apply("audited", &audited)?;
    let client = mesh.pod("client")?;
    wait_all(&mesh, &client, "/x", &["-X", "PUT"], 403)?;
    let near = mesh.pod("near")?.socket_v4(TARGET);
    eventually(LONG, || {
        let post = curl(&client, &format!("http://{near}/told"), &["-X", "POST"])?;
        ensure!(post.status == 200, "{post:?}");
        let node = mesh.lab.node("n1")?;
        let told = weft_lab::weft::cli(&node, &["flows", "--verdict", "audited", "-o", "json"])?;
        let told: Vec<Value> = told.success()?.json_lines()?;
        let is_it = |f: &Value| {
            f["request"]["path"] == "/told"
                && f["policy"] == "AuthorizationPolicy default/no-posts"
                && f["rule"] == "rules[0]"
        };
        ensure!(told.iter().any(is_it), "{told:?}");
        Ok(())
    })
}
