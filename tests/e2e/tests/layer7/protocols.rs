//! HTTP/2, gRPC and WebSocket through Envoy.

use super::*;

/// Each version of HTTP goes on as it came, also to another node; upgraded connections stay open both ways.
#[test]
fn http2_grpc_and_websocket() -> Result {
    let (mesh, _servers) = start(pods(), &SERVERS)?;
    services(&mesh)?;
    let two = ServiceManifest::new("two")
        .cluster_ips(weft_e2e::mesh::vip_addresses(4))
        .port(ServicePort::tcp(80).named("h2").to(8081))
        .selector("app", "far");
    mesh.service(&two, 1)?;
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/h2_server.json");
    let envoy = mesh.pod("far")?.command(weft_e2e::http::envoy());
    let _h2 = envoy
        .args([
            "--disable-hot-restart",
            "--concurrency",
            "1",
            "-l",
            "error",
            "-c",
        ])
        .arg(&fixture)
        .spawn()?;
    mesh.apply(
        "route",
        "apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: web, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: web}]
  rules:
  - matches: [{method: {service: shop.v1.Cart, method: Add}}]
    backendRefs: [{name: two, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: web}]
  rules:
  - matches: [{path: {value: /two}}]
    backendRefs: [{name: two, port: 80}]
  - matches: [{path: {value: /near}}, {path: {value: /socket}}]
    backendRefs: [{name: near, port: 80}]
",
    )?;
    let client = mesh.pod("client")?;
    for url in urls(3, "/two") {
        wait_status(&client, &url, 200)?;
        let one = curl(&client, &url, &["--http1.1"])?;
        ensure!(one.header("x-protocol") == Some("HTTP/1.1"), "{one:?}");
        let two = curl(&client, &url, &["--http2-prior-knowledge"])?;
        ensure!(two.header("x-protocol") == Some("HTTP/2"), "{two:?}");
        ensure!(two.head.starts_with("HTTP/2 200"), "{two:?}");
        h2load(&client, &["-n", "2000", "-c", "10", "-m", "10", &url])?;
    }
    for url in urls(3, "/near") {
        h2load(&client, &["--h1", "-n", "300", "-c", "10", &url])?;
    }
    // Without a message: an Envoy that answers at once, as the server here does, resets the stream of a client that is still sending,
    // which curl takes for an error.
    let call = |path: &str| {
        let args = [
            "--http2-prior-knowledge",
            "-H",
            "content-type: application/grpc",
            "-H",
            "te: trailers",
            "--data-binary",
            "",
        ];
        curl(&client, &urls(3, path)[0], &args)
    };
    let add = call("/shop.v1.Cart/Add")?;
    ensure!(add.header("grpc-status") == Some("0"), "{add:?}");
    ensure!(add.header("x-path") == Some("/shop.v1.Cart/Add"), "{add:?}");
    // No such method: 12 is UNIMPLEMENTED, which is what Envoy makes of 404 for a gRPC client.
    let unknown = call("/shop.v1.Cart/Remove")?;
    ensure!(unknown.header("grpc-status") == Some("12"), "{unknown:?}");
    for vip in weft_e2e::mesh::vips(3) {
        let socket = client.command("/usr/bin/python3").args(["-c", WEBSOCKET]);
        let said = socket.arg(vip.ip().to_string()).run(LONG)?.success()?;
        ensure!(
            said.stdout.contains("near:one") && said.stdout.contains("near:two"),
            "{said:?}"
        );
    }
    Ok(())
}

/// Many requests at once, none of which may fail.
fn h2load(client: &Pod, args: &[&str]) -> Result {
    let said = client.command("h2load").args(args).run(LONG)?.success()?;
    let none = "0 failed, 0 errored, 0 timeout";
    ensure!(
        said.stdout.contains(none) && said.stdout.contains(" 0 4xx, 0 5xx"),
        "{said:?}"
    );
    Ok(())
}

const WEBSOCKET: &str = "import socket,sys,time
s=socket.create_connection((sys.argv[1],80),5)
s.sendall(b'GET /socket HTTP/1.1\\r\\nHost: x\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n')
assert b' 101 ' in s.recv(4096)
for word in (b'one', b'two'):
    s.sendall(word); print(s.recv(4096).decode()); time.sleep(0.2)
";
