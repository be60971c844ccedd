//! nginx, asked by wrk, h2load and curl.

use std::path::Path;

use anyhow::{Context, ensure};
use weft_e2e::Result;
use weft_e2e::nginx::{self, SIZES};
use weft_lab::Process;

use crate::site::{PORT, Polling, Site, checksum, compare};

fn nginx(site: &Site, listen: &str) -> Result<Process> {
    let server = site.server()?;
    site.serve(nginx::command(&server, site.folder.path(), PORT, listen)?)
}

fn url(site: &Site, path: &str) -> Result<String> {
    Ok(format!("http://{}:{PORT}/{path}", site.host()?))
}

#[test]
fn wrk_gets_all_answers_from_nginx() -> Result {
    compare(Polling::Always, |site| {
        let server = nginx(site, "")?;
        for path in ["f900", "f100000", "sendfile/f5000000"] {
            let url = url(site, path)?;
            let said = site
                .ask("wrk", &["-t", "1", "-c", "16", "-d", "1s", &url])?
                .stdout;
            ensure!(said.contains("requests in"), "{said}");
            let bad = ["Socket errors", "Non-2xx"];
            ensure!(!bad.iter().any(|bad| said.contains(bad)), "{path}: {said}");
        }
        Ok((server, ()))
    })
}

#[test]
fn files_arrive_as_they_were_sent() -> Result {
    compare(Polling::Always, |site| {
        let server = nginx(site, "")?;
        let mut sums = Vec::new();
        for size in SIZES {
            let sent = site.folder.path().join(format!("f{size}"));
            let wanted = checksum(site, &sent)?;
            for way in ["", "sendfile/"] {
                let got = site.folder.path().join("got");
                download(site, &format!("{way}f{size}"), &got)?;
                ensure!(checksum(site, &got)? == wanted, "{way}f{size} differs");
            }
            let to = url(site, &format!("upload/{size}"))?;
            let sent = sent.to_str().context("a path that is not UTF-8")?;
            site.ask("curl", &["-sS", "--fail", "-T", sent, &to])?;
            let got = site.folder.path().join("upload").join(size.to_string());
            ensure!(
                checksum(site, &got)? == wanted,
                "the upload of {size} bytes differs"
            );
            sums.push(wanted);
        }
        Ok((server, sums))
    })
}

fn download(site: &Site, path: &str, to: &Path) -> Result {
    let to = to.to_str().context("a path that is not UTF-8")?;
    site.ask("curl", &["-sS", "--fail", "-o", to, &url(site, path)?])?;
    Ok(())
}

#[test]
fn h2load_gets_all_answers_over_http_2() -> Result {
    compare(Polling::Always, |site| {
        let server = nginx(site, "http2")?;
        let mut answers = Vec::new();
        for (path, requests) in [("f900", "5000"), ("f100000", "500")] {
            let args = ["-n", requests, "-c", "16", "-m", "10", &url(site, path)?];
            let said = site.ask("h2load", &args)?.stdout;
            let all = format!("{requests} succeeded, 0 failed, 0 errored, 0 timeout");
            ensure!(said.contains(&all), "{said}");
            let bytes = said
                .split(") data")
                .next()
                .and_then(|head| head.rsplit('(').next());
            answers.push(bytes.map(str::to_owned));
        }
        Ok((server, answers))
    })
}
