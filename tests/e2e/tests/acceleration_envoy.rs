//! What pods and their node's Envoy exchange goes from socket to socket too: both legs of layer 7, and both ends of a tunnel.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::TempDir;
use weft_e2e::accel::count;
use weft_e2e::http::{curl, wait_status, with_envoy};
use weft_e2e::joined::{Joined, pods, web_goes_to};
use weft_e2e::mesh::{TARGET, vips};
use weft_e2e::nginx::{self, SIZES};
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};
use weft_lab::{Pod, Process, WeftOptions};

/// Nothing here takes so long, also on a machine that does much else.
const WITHIN: Duration = Duration::from_secs(120);

/// Pod near is told nothing but these.
const METHODS: &str = "apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: near, namespace: default}
spec:
  selector: {matchLabels: {app: near}}
  rules: [{to: [{operation: {methods: [GET, PUT]}}]}]
";
const STRICT: &str = "apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict, namespace: default}
spec: {mtls: {mode: STRICT}}
";

fn unaccelerated(service: &str) -> String {
    format!(
        "apiVersion: weft.io/v1alpha1
kind: TrafficPolicy
metadata: {{name: {service}, namespace: default}}
spec:
  targetRefs: [{{kind: Service, name: {service}}}]
  acceleration: Disabled
"
    )
}

/// Pods `client` and `near` on node n1, `far` on n2, nginx in the latter two; services near (1), far (2) and web (3).
struct Site {
    // Dropped before the lab.
    _servers: Vec<Process>,
    joined: Joined,
    folder: TempDir,
}

impl Deref for Site {
    type Target = Joined;

    fn deref(&self) -> &Joined {
        &self.joined
    }
}

impl Site {
    fn start() -> Result<Self> {
        let pods = pods(&[("client", "n1"), ("near", "n1"), ("far", "n2")]);
        let options = with_envoy().arg("--acceleration").arg("auto");
        let joined = Joined::start(pods, WeftOptions::default(), &options)?;
        let folder = tempfile::tempdir()?;
        let mut servers = Vec::new();
        for name in ["near", "far"] {
            let own = folder.path().join(name);
            fs::create_dir(&own)?;
            servers.push(nginx::command(&joined.pod(name)?, &own, TARGET, "")?.spawn()?);
        }
        Ok(Self {
            _servers: servers,
            joined,
            folder,
        })
    }

    fn client(&self) -> Result<Pod> {
        self.pod("client")
    }

    fn counts(&self, node: &str) -> Result<(u64, u64)> {
        let agent = self.agent(node)?;
        Ok((
            count(agent, "accelerated_pairs")?,
            count(agent, "accelerated_bytes")?,
        ))
    }

    /// Waits until a request for 900 bytes is accelerated on `legs` connections of this node. Envoy may have had one of them before.
    fn wait_accelerated(&self, url: &str, node: &str, legs: u64) -> Result {
        wait_status(&self.client()?, url, 200)?;
        eventually(LONG, || {
            let before = self.counts(node)?;
            curl(&self.client()?, url, &[])?;
            let after = self.counts(node)?;
            ensure!(
                after.1 - before.1 >= legs * 900,
                "{url}: {before:?}, then {after:?}"
            );
            Ok(())
        })
    }

    /// Waits until requests leave both counters of this node as they are.
    fn wait_plain(&self, url: &str, node: &str) -> Result {
        eventually(LONG, || {
            let before = self.counts(node)?;
            // Envoy keeps connections to the server: those that are open are asked as well.
            for _ in 0..3 {
                let answer = curl(&self.client()?, url, &[])?;
                ensure!(answer.status == 200, "{answer:?}");
            }
            let after = self.counts(node)?;
            ensure!(before == after, "{url}: {before:?}, then {after:?}");
            Ok(())
        })
    }

    fn ask(&self, program: &str, args: &[&str]) -> Result<String> {
        let command = self.client()?.command(program).args(args);
        Ok(command.run(WITHIN)?.success()?.stdout)
    }

    /// Over both families: files and requests to a service, with so many accelerated connections on each of these nodes.
    fn exchange(&self, service: u16, server: &str, legs: &[(&str, u64)]) -> Result {
        for base in bases(service) {
            for (node, legs) in legs {
                self.wait_accelerated(&format!("{base}/f900"), node, *legs)?;
            }
            self.exchange_files(&base, server)?;
            self.flood(&base)?;
        }
        Ok(())
    }

    /// Files of all sizes are fetched from and put to this server, and are what they were.
    fn exchange_files(&self, base: &str, server: &str) -> Result {
        let got = self.folder.path().join("got");
        let path = got.to_str().context("a path that is not UTF-8")?;
        for size in SIZES {
            let wanted = nginx::content(size);
            for way in ["", "sendfile/"] {
                let url = format!("{base}/{way}f{size}");
                self.ask("curl", &["-gsS", "--fail", "-o", path, &url])?;
                ensure!(fs::read(&got)? == wanted, "{url} differs");
            }
            let own = self.folder.path().join(server);
            let (sent, to) = (own.join(format!("f{size}")), format!("upload/{size}"));
            let sent = sent.to_str().context("a path that is not UTF-8")?;
            let url = format!("{base}/{to}");
            self.ask("curl", &["-gsS", "--fail", "-T", sent, &url])?;
            ensure!(read(&own.join(to))? == wanted, "{url} differs");
        }
        Ok(())
    }

    /// Requests as fast as they are answered: none fails.
    fn flood(&self, base: &str) -> Result {
        for path in ["f900", "f100000"] {
            let url = format!("{base}/{path}");
            let said = self.ask("wrk", &["-t", "1", "-c", "16", "-d", "1s", &url])?;
            ensure!(said.contains("requests in"), "{said}");
            let bad = ["Socket errors", "Non-2xx"];
            ensure!(!bad.iter().any(|bad| said.contains(bad)), "{url}: {said}");
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

/// Of a service at port 80, over both families.
fn bases(index: u16) -> [String; 2] {
    vips(index).map(|vip| format!("http://{vip}"))
}

#[test]
fn requests_go_from_socket_to_socket_on_both_legs() -> Result {
    let site = Site::start()?;
    site.apply("route", &web_goes_to("near"))?;
    site.exchange(3, "near", &[("n1", 2)])?;
    let vip = vips(3)[0].ip().to_string();
    eventually(LONG, || {
        let flows = site.flows("n1", &[])?;
        let closed = |to: &dyn Fn(&Value) -> bool| {
            flows.iter().any(|f| {
                f["event"] == "close" && f["path"] == "envoy" && f["accelerated"] == true && to(f)
            })
        };
        ensure!(
            closed(&|f| f["destination"]["address"] == vip),
            "the client's leg: {flows:?}"
        );
        Ok(())
    })
}

#[test]
fn requests_that_a_policy_judges_go_from_socket_to_socket_until_it_refuses_them() -> Result {
    let site = Site::start()?;
    site.apply("methods", METHODS)?;
    site.exchange(1, "near", &[("n1", 2)])?;
    for base in bases(1) {
        let refused = curl(&site.client()?, &format!("{base}/f900"), &["-X", "DELETE"])?;
        ensure!(refused.status == 403, "{refused:?}");
    }
    // On a connection that lives, and is accelerated.
    let url = format!("{}/f900", bases(1)[0]);
    let mut load = site
        .client()?
        .command("h2load")
        .args(["--h1", "-D", "20", "-c", "4", &url])
        .spawn()?;
    let before = site.counts("n1")?.1;
    eventually(LONG, || {
        ensure!(site.counts("n1")?.1 > before + 100_000);
        Ok(())
    })?;
    site.apply("methods", &METHODS.replace("[GET, PUT]", "[PUT]"))?;
    wait_status(&site.client()?, &url, 403)?;
    let status = load.wait(WITHIN)?.context("h2load does not end")?;
    let said = load.stdout();
    let codes = said.lines().find(|line| line.starts_with("status codes:"));
    let codes = codes.with_context(|| format!("{status}: {said}"))?;
    ensure!(
        !codes.contains(" 0 2xx") && !codes.contains(" 0 4xx"),
        "{said}"
    );
    Ok(())
}

#[test]
fn tunnels_begin_and_end_from_socket_to_socket() -> Result {
    let site = Site::start()?;
    site.apply("strict", STRICT)?;
    site.exchange(2, "far", &[("n1", 1), ("n2", 1)])
}

#[test]
fn services_and_pods_may_opt_out() -> Result {
    let site = Site::start()?;
    site.apply("route", &web_goes_to("near"))?;
    let url = format!("{}/f900", bases(3)[0]);
    site.wait_accelerated(&url, "n1", 2)?;
    // Envoy's leg is to a pod of service near, and whose the client's is says its address.
    for service in ["web", "near"] {
        site.apply(&format!("plain-{service}"), &unaccelerated(service))?;
    }
    site.wait_plain(&url, "n1")?;
    for service in ["web", "near"] {
        site.lab.manifests().remove(&format!("plain-{service}"))?;
    }
    site.wait_accelerated(&url, "n1", 1)?;
    for pod in ["client", "near"] {
        let mut manifest = site.pod(pod)?.manifest().value();
        manifest["metadata"]["annotations"] = serde_json::json!({"weft.io/acceleration": "off"});
        site.apply(&format!("pod-{pod}"), &manifest.to_string())?;
    }
    site.wait_plain(&url, "n1")
}
