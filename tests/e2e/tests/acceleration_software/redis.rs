//! Redis, its benchmark, and its digest of what it holds afterwards.

use anyhow::ensure;
use weft_e2e::Result;

use crate::site::{PORT, Polling, Site, compare};

/// Requests of each kind; a multiple of all pipelines, else the last is sent or not.
const REQUESTS: &str = "1600";

fn cli(site: &Site, words: &[&str]) -> Result<String> {
    let port = PORT.to_string();
    let host = site.host()?;
    let args: Vec<&str> = ["-h", &host, "-p", &port]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    Ok(site.ask("redis-cli", &args)?.stdout)
}

#[test]
fn redis_holds_what_its_benchmark_wrote() -> Result {
    compare(Polling::Always, |site| {
        let port = PORT.to_string();
        let command = site
            .server()?
            .command("redis-server")
            .args(["--port", &port, "--save", ""]);
        let command = command.args([
            "--protected-mode",
            "no",
            "--appendonly",
            "no",
            "--enable-debug-command",
            "yes",
        ]);
        let server = site.serve(command.arg("--dir").arg(site.folder.path()))?;
        let host = site.host()?;
        for (pipeline, size) in [("1", "64"), ("16", "1024"), ("4", "16384")] {
            let tests = "set,get,incr,lpush,rpush,lrange_100,hset,mset";
            let at = ["-h", &host, "-p", &port, "-c", "16", "-n", REQUESTS];
            let load = ["-P", pipeline, "-d", size, "-t", tests, "--csv"];
            let args: Vec<&str> = at.into_iter().chain(load).collect();
            let said = site.ask("redis-benchmark", &args)?;
            ensure!(!said.stderr.contains("rror"), "{}", said.stderr);
            ensure!(!said.stdout.contains("rror"), "{}", said.stdout);
            ensure!(said.stdout.contains("LRANGE_100"), "{}", said.stdout);
        }
        let digest = cli(site, &["DEBUG", "DIGEST"])?;
        ensure!(digest.trim().len() == 40, "{digest}");
        Ok((
            server,
            (
                digest,
                cli(site, &["LLEN", "mylist"])?,
                cli(site, &["GET", "counter:__rand_int__"])?,
            ),
        ))
    })
}
