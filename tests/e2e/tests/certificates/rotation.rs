//! Certificates that live for seconds, and a new root, under connections of a real Envoy that gets all of it from the agent.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use weft_e2e::certificates::{sds_socket, spiffe_id, wait_certificates};
use weft_e2e::http::{envoy, with_envoy};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::{Node, Process};

use super::pods;

const FRONT: u16 = 18_001;
const BACK: u16 = 18_002;
const ECHO: u16 = 18_003;
/// Certificates are renewed several times while the test runs.
const LIFE: &str = "4s";

/// As `web`, to whoever is `cart`; and as `cart`, to whoever is `web`; all in one Envoy.
fn config(sds: &Path) -> Value {
    let secrets = json!({"resource_api_version": "V3", "api_config_source": {
        "api_type": "DELTA_GRPC", "transport_api_version": "V3",
        "grpc_services": [{"envoy_grpc": {"cluster_name": "agent"}}],
    }});
    let as_to = |own: &str, peer: &str| {
        json!({
            "tls_certificate_sds_secret_configs": [{"name": spiffe_id(own), "sds_config": secrets}],
            "combined_validation_context": {
                "default_validation_context": {"match_typed_subject_alt_names": [
                    {"san_type": "URI", "matcher": {"exact": spiffe_id(peer)}},
                ]},
                "validation_context_sds_secret_config": {"name": "ROOTCA", "sds_config": secrets},
            },
        })
    };
    let tls = |kind: &str, body: Value| {
        let mut typed = body;
        typed["@type"] = format!(
            "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.{kind}TlsContext"
        )
        .into();
        json!({"name": "envoy.transport_sockets.tls", "typed_config": typed})
    };
    let pipe = |to: &str| {
        json!([{"name": "envoy.filters.network.tcp_proxy", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
            "stat_prefix": to, "cluster": to,
        }}])
    };
    let at = |port: u16| json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    let cluster = |name: &str, address: Value, more: Value| {
        let mut cluster = json!({
            "name": name, "type": "STATIC", "connect_timeout": "5s",
            "load_assignment": {"cluster_name": name, "endpoints": [
                {"lb_endpoints": [{"endpoint": {"address": address}}]},
            ]},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            cluster[key] = value.clone();
        }
        cluster
    };
    let http2 = json!({"typed_extension_protocol_options": {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        },
    }});
    // Resumed sessions would not look at the peer's certificate.
    let client = json!({"common_tls_context": as_to("web", "cart"), "max_session_keys": 0});
    let server = json!({
        "common_tls_context": as_to("cart", "web"), "require_client_certificate": true,
    });
    json!({
        "node": {"id": "test", "cluster": "test"},
        "static_resources": {
            "listeners": [
                {"name": "front", "address": at(FRONT), "filter_chains": [{"filters": pipe("back")}]},
                {"name": "back", "address": at(BACK), "filter_chains": [{
                    "filters": pipe("echo"), "transport_socket": tls("Downstream", server),
                }]},
            ],
            "clusters": [
                cluster("agent", json!({"pipe": {"path": sds}}), http2),
                cluster("back", at(BACK), json!({"transport_socket": tls("Upstream", client)})),
                cluster("echo", at(ECHO), json!({})),
            ],
        },
    })
}

/// Serves until the test's process ends.
fn echo(node: &Node) -> Result {
    let listener = node
        .netns()
        .run(|| TcpListener::bind(("127.0.0.1", ECHO)))??;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut reader = stream.try_clone()?;
                std::io::copy(&mut reader, &mut &stream)
            });
        }
    });
    Ok(())
}

fn start_envoy(node: &Node) -> Result<Process> {
    let file = node.run_dir().join("test-envoy.json");
    std::fs::write(&file, config(&sds_socket(node)).to_string())?;
    let command = node.command(envoy()).arg("--config-path").arg(&file);
    Ok(command
        .args([
            "--use-dynamic-base-id",
            "--concurrency",
            "1",
            "-l",
            "warning",
        ])
        .spawn()?)
}

fn connect(node: &Node) -> Result<TcpStream> {
    let stream = node
        .netns()
        .run(|| TcpStream::connect(("127.0.0.1", FRONT)))??;
    stream.set_read_timeout(Some(LONG))?;
    Ok(stream)
}

/// A byte there and back.
fn ping(mut stream: &TcpStream) -> Result {
    let mut byte = [0];
    stream.write_all(&[7])?;
    stream.read_exact(&mut byte).context("no answer")
}

#[test]
fn no_connection_notices_new_certificates_or_a_new_root() -> Result {
    let options = with_envoy().arg("--svid-life").arg(LIFE);
    let options = options.arg("--root-overlap").arg("3s");
    let mut mesh = Mesh::start_with(pods(), &options)?;
    let node = mesh.lab.node("n1")?;
    let weft = mesh.weft("n1")?;
    let serial = |list: &[Value]| list[0]["serial"].clone();
    let first = serial(&wait_certificates(weft, &["cart", "web"])?);
    echo(&node)?;
    let mut proxy = start_envoy(&node)?;
    let held = eventually(LONG, || {
        ensure!(proxy.is_running(), "{}", proxy.stderr());
        let stream = connect(&node)?;
        ping(&stream)?;
        Ok(stream)
    })?;

    let ca = node.run_dir().join("ca").display().to_string();
    let rotate = weft.cli(&["ca", "rotate", "--ca-dir", &ca])?.success()?;
    ensure!(rotate.stdout.contains("next root"), "{}", rotate.stdout);
    let old = std::fs::read_to_string(node.run_dir().join("ca/root.pem"))?;
    let (mut renewed, mut replaced) = (0_u32, false);
    let mut known = first;
    // New connections all the time; the one from before goes on. The new root takes over in between.
    let deadline = std::time::Instant::now() + LONG * 2;
    while renewed < 3 || !replaced {
        ensure!(
            std::time::Instant::now() < deadline,
            "{renewed} renewals, new root: {replaced}"
        );
        ping(&held).context("the connection from before")?;
        let fresh = connect(&node)?;
        ping(&fresh).with_context(|| format!("a new connection; {}", proxy.stderr()))?;
        let weft = mesh.weft("n1")?;
        let now = serial(&weft_e2e::certificates::certificates(weft)?);
        // After the root has changed, so that its certificates are in use.
        if now != known {
            known = now;
            renewed = if replaced { renewed + 1 } else { 0 };
        }
        replaced |= std::fs::read_to_string(node.run_dir().join("ca/root.pem"))? != old;
        thread::sleep(Duration::from_millis(50));
    }
    let said = weft_e2e::mesh::status(mesh.weft("n1")?)?;
    ensure!(said["identities"]["roots"] == 2, "{}", said["identities"]);
    ensure!(said["ready"] == true, "{said}");
    let log = proxy.stderr();
    ensure!(
        !log.contains("refused") && !log.contains("rejected"),
        "{log}"
    );
    proxy.terminate();
    Ok(())
}
