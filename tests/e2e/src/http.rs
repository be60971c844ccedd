//! A mesh with the real Envoy on its nodes, and HTTP between its pods.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{Lab, LabBuilder, Output, Pod, Process, WeftOptions};

use crate::mesh::{PORT, TARGET, vip_addresses};
use crate::wait::LONG;
use crate::{Mesh, Result, eventually};

/// The Envoy that the tests run: `WEFT_TEST_ENVOY`, else the one that scripts/install-envoy has put there.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn envoy() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/envoy/envoy");
    let path = env::var_os("WEFT_TEST_ENVOY").map_or(installed, PathBuf::from);
    assert!(
        path.exists(),
        "no Envoy at {}: run scripts/install-envoy, or name one in WEFT_TEST_ENVOY",
        path.display()
    );
    path
}

/// Options for a `weft up` with Envoy.
#[must_use]
pub fn with_envoy() -> WeftOptions {
    WeftOptions::default().arg("--envoy").arg(envoy())
}

/// A mesh whose nodes have Envoy, with a server in each of `servers` that says what it saw.
///
/// # Errors
/// As [`Mesh::start`].
pub fn start(builder: LabBuilder, servers: &[&str]) -> Result<(Mesh, Vec<Process>)> {
    let mesh = Mesh::start_with(builder, &with_envoy())?;
    let processes = servers.iter().map(|name| serve(&mesh.lab, name, TARGET));
    let processes = processes.collect::<Result<_>>()?;
    Ok((mesh, processes))
}

/// Starts a server at a port of a pod that says what it saw.
///
/// # Errors
/// When it does not start.
pub fn serve(lab: &Lab, pod: &str, port: u16) -> Result<Process> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/http_server.py");
    let server = lab.pod(pod)?.command("/usr/bin/python3").arg(script);
    let mut server = server.arg(pod).arg(port.to_string()).spawn()?;
    server.wait_for_line("ready", LONG)?;
    Ok(server)
}

/// A service of the pods with label `app: NAME`, at the `index`th service address.
#[must_use]
pub fn service(name: &str, index: u16) -> ServiceManifest {
    ServiceManifest::new(name)
        .cluster_ips(vip_addresses(index))
        .port(ServicePort::tcp(PORT).named("http").to(TARGET))
        .selector("app", name)
}

/// An answer, as curl got it.
#[derive(Debug)]
pub struct Answer {
    /// Status code; 0: none came.
    pub status: u16,
    /// curl's exit status: 7 is a refused connection, 28 one that took too long.
    pub exit: i32,
    /// Seconds.
    pub took: f64,
    /// Header lines.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Answer {
    /// What the server saw.
    ///
    /// # Errors
    /// When it was not the server that answered.
    pub fn seen(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("{self:?}"))
    }

    /// Name of the server that answered; empty: none did.
    #[must_use]
    pub fn server(&self) -> String {
        let seen = self.seen().ok();
        let name = seen.as_ref().and_then(|s| s.get("server")?.as_str());
        name.unwrap_or_default().to_owned()
    }

    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .next()
    }
}

const MARK: &str = "\n--weft-curl--";

/// Asks `url` from a pod.
///
/// # Errors
/// When curl cannot be run.
pub fn curl(pod: &Pod, url: &str, args: &[&str]) -> Result<Answer> {
    let output = pod
        .command("curl")
        .args(["-sS", "-i", "--max-time", "10", "-g", "-o", "-"])
        .args(["-w", &format!("{MARK}%{{http_code}} %{{time_total}}")])
        .args(args)
        .arg(url)
        .run(Duration::from_secs(30))?;
    answer(&output)
}

fn answer(output: &Output) -> Result<Answer> {
    let (text, tail) = output
        .stdout
        .rsplit_once(MARK)
        .context("curl said nothing")?;
    let (status, took) = tail.split_once(' ').context("no status")?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .map_or((text, ""), |(head, body)| (head, body));
    Ok(Answer {
        status: status.parse()?,
        exit: output.status.code().unwrap_or(-1),
        took: took.trim().parse()?,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// So often in a row success has to come: what happens now and then is none.
const IN_A_ROW: u32 = 5;

/// Waits until a pod gets this status, and nothing else.
///
/// # Errors
/// When it does not.
pub fn wait_status(pod: &Pod, url: &str, status: u16) -> Result<Answer> {
    eventually(LONG, || {
        let mut last = None;
        let times = if status == 200 { IN_A_ROW } else { 1 };
        for _ in 0..times {
            let answer = curl(pod, url, &[])?;
            ensure!(answer.status == status, "{status} expected: {answer:?}");
            last = Some(answer);
        }
        last.context("not asked")
    })
}

/// URL of a path at the `index`th service, over IPv4 and over IPv6.
#[must_use]
pub fn urls(index: u16, path: &str) -> [String; 2] {
    crate::mesh::vips(index).map(|vip| format!("http://{vip}{path}"))
}

/// Process number of a node's Envoy, found by its agent.
///
/// # Errors
/// When there is none.
pub fn envoy_of(mesh: &mut Mesh, node: &str) -> Result<i32> {
    envoy_below(mesh.weft(node)?.process().pid())
}

/// Process id of the Envoy that this agent has started.
///
/// # Errors
/// When there is none.
pub fn envoy_below(agent: u32) -> Result<i32> {
    for task in std::fs::read_dir(format!("/proc/{agent}/task"))? {
        let children = std::fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            if name.starts_with("envoy") {
                return Ok(child.parse()?);
            }
        }
    }
    anyhow::bail!("no Envoy below {agent}")
}

/// Ends a process without a word to it.
///
/// # Errors
/// When there is no such process.
pub fn kill(pid: i32) -> Result {
    let pid = rustix::process::Pid::from_raw(pid).context("a process number")?;
    Ok(rustix::process::kill_process(
        pid,
        rustix::process::Signal::KILL,
    )?)
}
