//! Pairs of pods that exchange bytes as `peers/accel` says, and what the node tells about it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_lab::{Lab, Pod, PodSpec, Process, Weft, WeftOptions};

use crate::Result;
use crate::mesh::Mesh;
use crate::wait::{LONG, eventually};

/// How long one scenario may take on a loaded machine.
const WITHIN: Duration = Duration::from_secs(180);

/// Scenarios in which bytes are accelerated, and neither end may notice. See `peers/accel`.
pub const SCENARIOS: [&str; 24] = [
    "ping",
    "hello",
    "both",
    "both-small",
    "half",
    "half-back",
    "late-reader",
    "broken-pipe",
    "reset",
    "killed",
    "peek",
    "fionread",
    "lowat",
    "epoll",
    "epoll-edge",
    "short-reads",
    "iovecs",
    "writev",
    "cork",
    "sendfile",
    "splice",
    "outq",
    "fork",
    "passed",
];

/// Two pods on node n1, and what an agent with these options makes of them.
pub struct Pair {
    /// Both pods and the node.
    pub mesh: Mesh,
    next_port: u16,
}

impl Pair {
    /// Pods `client` and `server`, ready.
    ///
    /// # Errors
    /// As [`Mesh::start_with`].
    pub fn start(args: &[&str]) -> Result<Self> {
        let lab = Lab::builder()
            .node("n1")
            .pod(PodSpec::new("client", "n1"))
            .pod(PodSpec::new("server", "n1"));
        let usual: &[&str] = match args.contains(&"--acceleration") {
            true => &[],
            false => &["--acceleration", "auto"],
        };
        let all = usual.iter().chain(args);
        let options = all.fold(WeftOptions::default(), |o, arg| o.arg(arg));
        let pair = Self {
            mesh: Mesh::start_with(lab, &options)?,
            next_port: 7000,
        };
        Ok(pair)
    }

    /// Waits until the kernel knows both pods' namespaces; then connections are accelerated.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn wait_accelerated(&mut self) -> Result {
        eventually(LONG, || {
            let before = self.count("accelerated_bytes")?;
            self.run("hello")?;
            let after = self.count("accelerated_bytes")?;
            ensure!(after > before, "not accelerated yet: {before} to {after}");
            Ok(())
        })
    }

    /// Runs a scenario over IPv4 to its end.
    ///
    /// # Errors
    /// What its ends have to say.
    pub fn run(&mut self, scenario: &str) -> Result {
        let port = self.port();
        let server = self.mesh.pod("server")?.socket_v4(port);
        self.run_at(scenario, server)
    }

    /// Runs a scenario at this address of the server.
    ///
    /// # Errors
    /// What its ends have to say.
    pub fn run_at(&self, scenario: &str, server: SocketAddr) -> Result {
        Self::finish(scenario, self.begin(scenario, server, server)?)
    }

    /// Runs a scenario in which the client connects to `vip`.
    ///
    /// # Errors
    /// What its ends have to say.
    pub fn run_via(&self, scenario: &str, server: SocketAddr, vip: SocketAddr) -> Result {
        Self::finish(scenario, self.begin(scenario, server, vip)?)
    }

    /// Waits for the ends of a scenario.
    ///
    /// # Errors
    /// What they have to say.
    pub fn finish(scenario: &str, (mut accepts, mut connects): (Process, Process)) -> Result {
        for end in [&mut connects, &mut accepts] {
            let status = end.wait(WITHIN)?.context("does not end")?;
            let killed = scenario == "killed" && status.code().is_none();
            let said = end.stderr();
            ensure!(
                status.success() || killed,
                "{scenario}: {}: {status}: {said}",
                end.command()
            );
        }
        Ok(())
    }

    /// Starts both ends: the one that accepts, and the one that connects.
    ///
    /// # Errors
    /// When one does not start.
    pub fn begin(
        &self,
        scenario: &str,
        server: SocketAddr,
        asked: SocketAddr,
    ) -> Result<(Process, Process)> {
        self.begin_between(["server", "client"], scenario, server, asked)
    }

    /// Starts both ends in one pod.
    ///
    /// # Errors
    /// When one does not start.
    pub fn begin_within(
        &self,
        pod: &str,
        scenario: &str,
        at: SocketAddr,
    ) -> Result<(Process, Process)> {
        self.begin_between([pod, pod], scenario, at, at)
    }

    /// Starts both ends in one pod, where something brings who asks for `asked` to the server.
    ///
    /// # Errors
    /// When one does not start.
    pub fn begin_translated(
        &self,
        pod: &str,
        scenario: &str,
        server: SocketAddr,
        asked: SocketAddr,
    ) -> Result<(Process, Process)> {
        self.begin_between([pod, pod], scenario, server, asked)
    }

    fn begin_between(
        &self,
        [takes, opens]: [&str; 2],
        scenario: &str,
        server: SocketAddr,
        asked: SocketAddr,
    ) -> Result<(Process, Process)> {
        let accepts = self.end(takes, "server", scenario, server)?;
        eventually(LONG, || {
            let said = accepts.stderr();
            ensure!(accepts.stdout().contains("listening"), "{said}");
            Ok(())
        })?;
        let connects = self.end(opens, "client", scenario, asked)?;
        Ok((accepts, connects))
    }

    fn end(&self, pod: &str, role: &str, scenario: &str, server: SocketAddr) -> Result<Process> {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("peers/accel");
        let pod: Pod = self.mesh.pod(pod)?;
        let command = pod
            .command("python3")
            .arg("-B")
            .arg(script)
            .args([role, scenario, &server.ip().to_string()])
            .arg(server.port().to_string());
        Ok(command.spawn()?)
    }

    /// A port that no scenario has had.
    pub fn port(&mut self) -> u16 {
        self.next_port += 1;
        self.next_port
    }

    /// One of the kernel's counters now.
    ///
    /// # Errors
    /// When the agent does not answer.
    pub fn count(&mut self, counter: &str) -> Result<u64> {
        count(self.mesh.weft("n1")?, counter)
    }
}

/// One of the kernel's counters on a node, as its agent tells it.
///
/// # Errors
/// When the agent does not answer.
pub fn count(weft: &Weft, counter: &str) -> Result<u64> {
    let status: Value = weft.cli_json(&["status"])?;
    let counters = status.get("counters").and_then(Value::as_array);
    let found = counters
        .into_iter()
        .flatten()
        .find(|c| c.get("name").and_then(Value::as_str) == Some(counter))
        .and_then(|c| c.get("value"));
    let found = found.with_context(|| format!("no counter {counter} in {status:#}"))?;
    // 64-bit numbers may be text in JSON.
    let number = found.as_u64().or_else(|| found.as_str()?.parse().ok());
    number.with_context(|| format!("{found} is no count"))
}
