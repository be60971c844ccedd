//! An HTTPRoute that sends one request in ten to another version.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::stage::{Stage, VERSIONS};
use crate::talk;

const ROUTES: &str = "site";
const URL: &str = "http://10.96.0.20/";
const REQUESTS: u64 = 300;
const IN_EFFECT_WITHIN: Duration = Duration::from_secs(20);
const CURL_WITHIN: Duration = Duration::from_secs(60);

pub(super) fn routes(stage: &mut Stage) -> Result<()> {
    if !stage.has_envoy {
        talk::explain("Left out: there is no Envoy. `scripts/install-envoy` fetches one.");
        return Ok(());
    }
    talk::explain(
        "HTTPRoute shop/site: GET goes to site-v1 and site-v2, 90 to 10. Everything else finds no route.",
    );
    let _servers = stage.serve_http()?;
    stage.add_route(ROUTES)?;
    wait_until_served(stage)?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let urls = format!("{URL}[1-{REQUESTS}]");
    let answers = stage.client()?.command("curl").args(["-sS", &urls]);
    let answers = answers.run(CURL_WITHIN)?.success()?.stdout;
    for version in VERSIONS {
        let said = answers
            .matches(&format!("\"server\": \"{version}\""))
            .count();
        counts.insert(version.to_owned(), u64::try_from(said)?);
    }
    talk::bars(&counts);
    ensure!(
        counts.values().sum::<u64>() == REQUESTS,
        "not all were answered: {counts:?}"
    );
    // 30 expected, with a standard deviation of 5.2.
    let new = counts.get("v2").copied().unwrap_or(0);
    ensure!(
        (9..=51).contains(&new),
        "one in ten was to go to v2: {counts:?}"
    );
    ensure!(answers.contains("\"client\": \"10.244.1."), "{answers}");
    talk::holds(
        "every request was answered, about one in ten by v2; the servers see the client's own address",
    );
    let delete = status(stage, &["-X", "DELETE"])?;
    ensure!(delete == "404", "DELETE has no route: {delete}");
    talk::holds("DELETE: 404");
    stage.show(&["check", "shop/client", "shop/site"])?;
    stage.lab.manifests().remove(ROUTES)?;
    Ok(())
}

fn status(stage: &Stage, args: &[&str]) -> Result<String> {
    Ok(stage.client()?.http_status(URL, args)?.stdout)
}

fn wait_until_served(stage: &Stage) -> Result<()> {
    let deadline = Instant::now() + IN_EFFECT_WITHIN;
    while Instant::now() < deadline {
        // Both versions have to be known, and a few in a row do not tell.
        let all = (0..20)
            .map(|_| status(stage, &[]))
            .collect::<Result<Vec<_>>>()?;
        if all.iter().all(|code| code == "200") {
            return Ok(());
        }
        sleep(Duration::from_millis(50));
    }
    bail!("{URL} is not served within {IN_EFFECT_WITHIN:?}")
}
