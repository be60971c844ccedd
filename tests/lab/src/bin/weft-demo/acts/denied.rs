//! A NetworkPolicy that lets one client in and refuses another.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use weft_lab::GetOptions;

use super::{ask, by_server};
use crate::stage::{Stage, WEB, WEB_PORT};
use crate::{talk, traces};

const POLICY: &str = "web-ingress";
/// The pod that the policy does not name, and one that it selects: on the same node, whose agent is asked.
const STRANGER: &str = "stranger";
const SELECTED: &str = "web-1";
/// What the agent tells of the stranger's last refused connection.
const REFUSALS: [&str; 7] = [
    "flows",
    "--verdict",
    "denied",
    "--from",
    "shop/stranger",
    "--last",
    "1",
];
const IN_EFFECT_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn denied(stage: &mut Stage) -> Result<()> {
    talk::explain(
        "NetworkPolicy shop/web-ingress lets pods with the label app=client in to shop/web, and thereby nobody else.",
    );
    stage.add_policy(POLICY)?;
    wait_until_refused(stage)?;
    by_server(&ask(stage, WEB, GetOptions::tcp(20))?)?;
    talk::holds("`client` gets its answers, `stranger` gets none");
    stage.show(&REFUSALS)?;
    let span = traces::wait(&stage.traces, STRANGER)?;
    talk::shown(
        "What an OpenTelemetry collector is sent of it, an error in the trace of the connection:",
        &traces::lines(&span),
    );
    let said = span.status.map(|status| status.message);
    let said = said.unwrap_or_default();
    ensure!(said.contains("shop/web-ingress"), "{said}");
    let client = stage.show(&["check", "shop/client", "shop/web"])?;
    ensure!(client.contains("allowed"), "{client}");
    let stranger = stage.show(&["check", "shop/stranger", "shop/web-1:8080"])?;
    let why = "NetworkPolicy shop/web-ingress selects shop/web-1 and none of its rules lets TCP 8080 from shop/stranger in";
    ensure!(stranger.contains(why), "{stranger}");
    talk::holds("asked beforehand, the programs and maps that decide packets answer the same");
    stage.lab.manifests().remove(POLICY)?;
    Ok(())
}

/// Until a connection fails, and for the policy: on a busy machine one may fail for want of time.
fn wait_until_refused(stage: &Stage) -> Result<()> {
    let stranger = stage.lab.pod(STRANGER)?;
    let web = stage.lab.pod(SELECTED)?.socket_v4(WEB_PORT);
    let options = GetOptions::tcp(1).timeout(Duration::from_millis(300));
    let deadline = Instant::now() + IN_EFFECT_WITHIN;
    while Instant::now() < deadline {
        let attempts = stranger.get(web, &options)?;
        let refused = !attempts.first().context("no attempt was made")?.ok();
        if refused && stage.ask(&REFUSALS)?.stdout.contains(POLICY) {
            return Ok(());
        }
        sleep(Duration::from_millis(50));
    }
    bail!("the stranger is not refused by {POLICY} within {IN_EFFECT_WITHIN:?}")
}
