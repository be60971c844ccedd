//! An AuthorizationPolicy that lets GET in and refuses all other methods.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::stage::{HTTP_PORT, Stage};
use crate::talk;

const POLICY: &str = "site-readers";
/// On the node of the client, whose agent is asked.
const SERVER: &str = "web-1";
const IN_EFFECT_WITHIN: Duration = Duration::from_secs(20);
const REFUSALS: [&str; 7] = [
    "flows",
    "--verdict",
    "denied",
    "--from",
    "shop/client",
    "--last",
    "1",
];

pub(super) fn requests(stage: &mut Stage) -> Result<()> {
    if !stage.has_envoy {
        talk::explain("Left out: there is no Envoy. `scripts/install-envoy` fetches one.");
        return Ok(());
    }
    talk::explain(
        "AuthorizationPolicy shop/site-readers: GET, for everybody. The Envoy of the pod's own node judges each request; the pod's address does not lead round it.",
    );
    let _servers = stage.serve_http()?;
    stage.add_policy(POLICY)?;
    let url = format!("http://{}/", stage.lab.pod(SERVER)?.socket_v4(HTTP_PORT));
    wait_for(stage, &url, &["-X", "DELETE"], "403")?;
    wait_for(stage, &url, &[], "200")?;
    talk::holds("GET: 200, DELETE: 403");
    let told = Instant::now() + IN_EFFECT_WITHIN;
    while !stage.ask(&REFUSALS)?.stdout.contains("DELETE") {
        ensure!(Instant::now() < told, "the refusal is not told");
        sleep(Duration::from_millis(50));
    }
    let shown = stage.show(&REFUSALS)?;
    ensure!(shown.contains(POLICY), "{shown}");
    let check = stage.show(&[
        "check",
        "shop/client",
        &format!("shop/{SERVER}:{HTTP_PORT}"),
    ])?;
    ensure!(check.contains("via Envoy"), "{check}");
    stage.lab.manifests().remove(POLICY)?;
    Ok(())
}

fn wait_for(stage: &Stage, url: &str, args: &[&str], wanted: &str) -> Result<()> {
    let deadline = Instant::now() + IN_EFFECT_WITHIN;
    let mut last = String::new();
    while Instant::now() < deadline {
        last = stage.client()?.http_status(url, args)?.stdout;
        if last == wanted {
            return Ok(());
        }
        sleep(Duration::from_millis(50));
    }
    bail!("{url}: {last}, {wanted} expected within {IN_EFFECT_WITHIN:?}")
}
