//! A PeerAuthentication: from then on the wire between the nodes has TLS and nothing else.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;
use weft_lab::{Process, tools};

use crate::stage::{HTTP_PORT, Stage};
use crate::talk;

const POLICY: &str = "strict";
/// On the other node.
const SERVER: &str = "web-3";
/// What is looked for on the wire.
const MARKER: &str = "what-nobody-else-may-read";
const WITHIN: Duration = Duration::from_secs(20);

pub(super) fn mtls(stage: &mut Stage) -> Result<()> {
    if !stage.has_envoy {
        talk::explain("Left out: there is no Envoy. `scripts/install-envoy` fetches one.");
        return Ok(());
    }
    talk::explain(
        "The pod `client` sends a text to web-3 on the other node, while somebody watches the wire between them.",
    );
    let _servers = stage.serve_http()?;
    let wire = watch(stage)?;
    wait_for(stage, "200")?;
    let before = since(&wire)?;
    talk::explain(&format!("Without a policy: {}", words(&before)));
    ensure!(before["marked"].as_u64() > Some(0), "{before}");

    talk::explain("PeerAuthentication shop/strict: STRICT, for the whole namespace.");
    stage.add_policy(POLICY)?;
    let told = Instant::now() + WITHIN;
    loop {
        since(&wire)?;
        wait_for(stage, "200")?;
        let now = since(&wire)?;
        if now["tunnel"].as_u64() > Some(0) && now["plain"] == 0 {
            ensure!(now["marked"] == 0 && now["not_tls"] == 0, "{now}");
            talk::holds(&words(&now));
            break;
        }
        ensure!(Instant::now() < told, "not in effect: {now}");
    }
    stage.show(&["certificates"])?;
    stage.lab.manifests().remove(POLICY)?;
    Ok(())
}

fn words(wire: &Value) -> String {
    format!(
        "{} bytes in plain text, the text itself {} times; {} bytes of TLS",
        wire["plain"], wire["marked"], wire["tunnel"]
    )
}

/// Somebody at the other node's uplink, who counts what passes between pods.
fn watch(stage: &Stage) -> Result<Process> {
    let script = tools::workspace().join("tests/e2e/fixtures/wire.py");
    let pods = [stage.client()?, stage.lab.pod(SERVER)?];
    let addresses: Vec<_> = pods.iter().map(|p| p.addresses().v4.to_string()).collect();
    let node = stage.lab.node(pods[1].node())?;
    let watcher = node.command("/usr/bin/python3").arg(script);
    let mut watcher = watcher
        .args([node.uplink(), MARKER, &addresses.join(",")])
        .spawn()?;
    watcher.wait_for_line("ready", WITHIN)?;
    Ok(watcher)
}

/// What has passed since the last call.
fn since(wire: &Process) -> Result<Value> {
    // What was sent last has arrived by then.
    sleep(Duration::from_millis(100));
    let before = wire.stdout().lines().count();
    wire.signal(Signal::USR1);
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        if let Some(line) = wire.stdout().lines().nth(before) {
            return serde_json::from_str(line).context("what the watcher says");
        }
        sleep(Duration::from_millis(10));
    }
    bail!("the watcher says nothing: {}", wire.stderr())
}

fn wait_for(stage: &Stage, wanted: &str) -> Result<()> {
    let url = format!("http://{}/", stage.lab.pod(SERVER)?.socket_v4(HTTP_PORT));
    let deadline = Instant::now() + WITHIN;
    let mut last = String::new();
    while Instant::now() < deadline {
        last = stage.client()?.http_status(&url, &["-d", MARKER])?.stdout;
        if last == wanted {
            return Ok(());
        }
        sleep(Duration::from_millis(50));
    }
    bail!("{url}: {last}, {wanted} expected within {WITHIN:?}")
}
