//! memcached, its load generator, and the tests of its protocols.

use anyhow::{Context, ensure};
use weft_e2e::Result;
use weft_lab::Process;

use crate::site::{PORT, Polling, Site, compare};

fn memcached(site: &Site) -> Result<Process> {
    let port = PORT.to_string();
    let command = site
        .server()?
        .command("memcached")
        .args(["-u", "root", "-U", "0", "-p", &port]);
    site.serve(command)
}

#[test]
fn memcached_returns_what_was_stored() -> Result {
    // memcaslap's sockets do not block from when they are connected on: too late for `auto`.
    compare(Polling::Not, |site| {
        let server = memcached(site)?;
        let at = format!("{}:{PORT}", site.host()?);
        let mut verified = Vec::new();
        for size in ["100", "10000"] {
            let args = [
                "-s", &at, "-c", "16", "-T", "2", "-x", "20000", "-w", "1k", "-X", size, "-v",
                "1.0",
            ];
            let said = site.ask("memcaslap", &args)?.stdout;
            let count = |name: &str| {
                let line = said.lines().find_map(|line| line.strip_prefix(name));
                let number =
                    line.and_then(|rest| rest.trim_start_matches(':').trim().parse::<u64>().ok());
                number.with_context(|| format!("no {name} in {said}"))
            };
            for bad in ["get_misses", "verify_misses", "verify_failed"] {
                ensure!(count(bad)? == 0, "{bad}: {said}");
            }
            ensure!(count("cmd_get")? > 0 && count("cmd_set")? > 0, "{said}");
            verified.push(count("cmd_get")? + count("cmd_set")? >= 20_000);
        }
        Ok((server, verified))
    })
}

#[test]
fn memcached_passes_the_tests_of_its_protocols() -> Result {
    compare(Polling::Not, |site| {
        let server = memcached(site)?;
        let port = PORT.to_string();
        let said = site
            .ask("memccapable", &["-h", &site.host()?, "-p", &port])?
            .stdout;
        ensure!(said.contains("pass"), "{said}");
        Ok((server, said))
    })
}
