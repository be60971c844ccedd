//! Streams by iperf3. What it writes to a file (`-F`) is no measure: its server leaves what is still on its way when the test ends, over
//! plain TCP as well. Files that have to arrive are those of [`crate::web`].

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::Result;
use weft_lab::Process;

use crate::site::{PORT, Polling, Site, compare};

/// 20 MB: far more than the bound and all buffers.
const STREAM: &str = "20000000";

fn iperf3(site: &Site, options: &[&str]) -> Result<Process> {
    let port = PORT.to_string();
    let command = site
        .server()?
        .command("iperf3")
        .args(["-s", "-p", &port, "--forceflush"]);
    site.serve(command.args(options))
}

fn send(site: &Site, options: &[&str]) -> Result<Value> {
    let port = PORT.to_string();
    let host = site.host()?;
    let args: Vec<&str> = ["-c", &host, "-p", &port, "-J"]
        .into_iter()
        .chain(options.iter().copied())
        .collect();
    Ok(site.ask("iperf3", &args)?.json()?)
}

#[test]
fn iperf3_receives_what_it_sends() -> Result {
    compare(Polling::Not, |site| {
        let server = iperf3(site, &[])?;
        for options in [
            ["-l", "1K", "-P", "1"],
            ["-l", "64K", "-P", "4"],
            ["-N", "-l", "128K", "-R"].map(|o| o),
        ] {
            let all: Vec<&str> = ["-n", STREAM].into_iter().chain(options).collect();
            let said = send(site, &all)?;
            let bytes = |end: &str| {
                said.pointer(&format!("/end/{end}/bytes"))
                    .and_then(Value::as_u64)
            };
            let (sent, received) = (bytes("sum_sent"), bytes("sum_received"));
            let sent = sent.with_context(|| format!("{said:#}"))?;
            ensure!(sent >= STREAM.parse()?, "{options:?}: {sent} bytes sent");
            ensure!(
                received.is_some_and(|r| r > 0 && r <= sent),
                "{options:?}: {received:?} of {sent}"
            );
        }
        Ok((server, ()))
    })
}
