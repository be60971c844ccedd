//! The programs that take part: nginx, wrk, and a sidecar's Envoy.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use weft_lab::{Lab, Pod, Process};

use super::envoy::{INBOUND, OUTBOUND, Sidecar};
use super::{ALLOWED_PATH, PORT};

/// User of a sidecar: what it opens is not sent back to it. The number is Istio's.
const SIDECAR_USER: &str = "1337";
/// Worker threads of each sidecar: the default of sidecar meshes.
const WORKERS: &str = "2";
const START: Duration = Duration::from_secs(20);

/// nginx in a pod: answers [`ALLOWED_PATH`], writes no log.
pub(crate) fn nginx(lab: &Lab, pod: &Pod) -> Result<Process> {
    let folder = folder(lab, &format!("nginx-{}", pod.name()))?;
    let config = format!(
        "user root; worker_processes 2; daemon off; pid {folder}/pid; error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; tcp_nodelay on;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen {PORT}; location = {ALLOWED_PATH} {{ default_type text/plain; return 200 'a page of a few words\\n'; }} }}
}}\n"
    );
    let path = format!("{folder}/nginx.conf");
    fs::write(&path, config).with_context(|| format!("writing {path}"))?;
    Ok(pod
        .command("nginx")
        .args(["-c", &path, "-e", "stderr"])
        .spawn()?)
}

/// A sidecar in a pod, and the rules that bring it the pod's traffic.
pub(super) fn sidecar(lab: &Lab, pod: &Pod, envoy: &Path, config: &Sidecar<'_>) -> Result<Process> {
    let folder = folder(lab, &format!("sidecar-{}", pod.name()))?;
    let path = format!("{folder}/bootstrap.json");
    fs::write(&path, config.bootstrap().to_string()).with_context(|| format!("writing {path}"))?;
    let rules = format!(
        "*nat\n-A PREROUTING -p tcp -j REDIRECT --to-ports {INBOUND}\n-A OUTPUT -p tcp -m owner --uid-owner {SIDECAR_USER} -j RETURN\n\
         -A OUTPUT -d 127.0.0.1/32 -j RETURN\n-A OUTPUT -p tcp -j REDIRECT --to-ports {OUTBOUND}\nCOMMIT\n"
    );
    let rules_file = format!("{folder}/rules");
    fs::write(&rules_file, rules).with_context(|| format!("writing {rules_file}"))?;
    pod.command("iptables-restore")
        .arg(&rules_file)
        .run(START)?
        .success()?;
    let command = pod.command("setpriv").args([
        "--reuid",
        SIDECAR_USER,
        "--regid",
        SIDECAR_USER,
        "--clear-groups",
    ]);
    let command = command
        .arg(envoy)
        .args(["--config-path", &path, "--concurrency", WORKERS]);
    let mut process = command
        .args(["--disable-hot-restart", "--log-level", "info"])
        .spawn()?;
    process.wait_for_line("starting workers", START)?;
    Ok(process)
}

fn folder(lab: &Lab, name: &str) -> Result<String> {
    let folder = lab.dir().join(name);
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    folder
        .into_os_string()
        .into_string()
        .ok()
        .context("the lab's folder is not UTF-8")
}

/// Waits until the pod gets 200 for `url` some times in a row.
pub(super) fn wait_answer(pod: &Pod, url: &str, within: Duration) -> Result<()> {
    let tries = within.as_millis() / 200;
    let mut said = String::new();
    let mut good = 0;
    for _ in 0..tries {
        let output = pod.http_status(url, &[])?;
        said = format!("{} {}", output.stdout, output.stderr);
        good = if output.stdout == "200" { good + 1 } else { 0 };
        if good == 5 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(if good > 0 { 1 } else { 200 }));
    }
    bail!("{}: {url} does not answer: {said}", pod.name())
}

/// Status of one request.
pub(super) fn status(pod: &Pod, url: &str, method: &str) -> Result<String> {
    Ok(pod.http_status(url, &["-X", method])?.stdout)
}

/// What wrk saw.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Wrk {
    pub(crate) requests: u64,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) failed: u64,
}

const REPORT: &str = "done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('RESULT %d %d %d %d %d\\n', summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end\n";

/// wrk in a pod for some seconds, with two threads.
pub(crate) fn wrk(lab: &Lab, pod: &Pod, url: &str, connections: u32, seconds: u64) -> Result<Wrk> {
    let script = lab.dir().join("report.lua");
    if !script.exists() {
        fs::write(&script, REPORT).context("writing a script for wrk")?;
    }
    let command = pod.command("wrk").args([
        "-t",
        "2",
        "-c",
        &connections.to_string(),
        "-d",
        &format!("{seconds}s"),
    ]);
    let output = command
        .arg("-s")
        .arg(&script)
        .arg(url)
        .run(Duration::from_secs(seconds + 10))?
        .success()?;
    let line = output
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("RESULT "));
    let numbers: Vec<f64> = line
        .with_context(|| format!("wrk said no result: {}", output.stdout))?
        .split(' ')
        .filter_map(|n| n.parse().ok())
        .collect();
    let [requests, micros, p50_us, p99_us, failed] = numbers[..] else {
        bail!("wrk's result is not five numbers: {}", output.stdout);
    };
    Ok(Wrk {
        requests: requests as u64,
        per_second: requests / (micros / 1e6),
        p50_us,
        p99_us,
        failed: failed as u64,
    })
}
