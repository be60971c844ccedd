//! Weft on a lab's node, fed by a control plane of Kubernetes on the same node.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use weft_lab::{Lab, Process, Weft, WeftOptions, tools};

use crate::{ControlPlane, Options, User, binaries};

/// Longer than anything should take, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
const CONTROL: &str = "127.0.0.1:15010";
const STATUS: &str = "127.0.0.1:15021";

/// etcd, kube-apiserver, and `weft` beside them.
pub struct Mesh {
    // In the order in which they end.
    agent: Option<Weft>,
    control: Option<Process>,
    /// Kubernetes.
    pub kubernetes: ControlPlane,
    lab: Lab,
}

impl Mesh {
    /// Kubernetes alone.
    pub fn new() -> Result<Self> {
        let bin = binaries::folder(&["kube-apiserver"])?;
        let lab = Lab::builder().node("n1").build()?;
        let node = lab.node("n1")?;
        let kubernetes = ControlPlane::start(&lab, &node, &bin, &Options::default())?;
        Ok(Self {
            agent: None,
            control: None,
            kubernetes,
            lab,
        })
    }

    /// Starts `weft control` as this user, with more arguments.
    pub fn start_control(&mut self, user: User, arguments: &[&str]) -> Result<()> {
        let kubeconfig = self.kubernetes.kubeconfig(user);
        self.start_control_with(&kubeconfig, arguments)
    }

    /// Starts `weft control` with this kubeconfig.
    pub fn start_control_with(&mut self, kubeconfig: &Path, arguments: &[&str]) -> Result<()> {
        let control = self.lab.node("n1")?.control_place().command(tools::weft()?);
        let control = control
            .args([
                "control",
                "--listen",
                CONTROL,
                "--metrics",
                STATUS,
                "--kubeconfig",
            ])
            .arg(kubeconfig)
            .arg("--ca-dir")
            .arg(self.fresh_dir("ca")?)
            .args(arguments);
        self.control = Some(control.spawn()?);
        Ok(())
    }

    /// A folder that does not exist yet.
    fn fresh_dir(&self, name: &str) -> Result<PathBuf> {
        let parent = tempfile::Builder::new()
            .prefix(name)
            .tempdir_in(self.lab.dir())?;
        Ok(parent.keep().join(name))
    }

    /// A second `weft control`, which serves no agent here.
    pub fn another_control(&self, user: User) -> Result<Process> {
        let control = self.lab.node("n1")?.control_place().command(tools::weft()?);
        let control = control
            .args([
                "control",
                "--listen",
                "127.0.0.1:15110",
                "--metrics",
                "none",
                "--kubeconfig",
            ])
            .arg(self.kubernetes.kubeconfig(user))
            .arg("--ca-dir")
            .arg(self.fresh_dir("ca")?);
        Ok(control.spawn()?)
    }

    /// Ends the control plane in order.
    pub fn stop_control(&mut self) -> Result<()> {
        let mut control = self
            .control
            .take()
            .context("no control plane was started")?;
        control.terminate();
        control.finish(PATIENCE)?.success()?;
        Ok(())
    }

    /// Ends the control plane at once.
    pub fn kill_control(&mut self) {
        self.control = None;
    }

    /// Starts `weft agent`.
    pub fn start_agent(&mut self) -> Result<()> {
        let node = self.lab.node("n1")?;
        self.agent = Some(Weft::agent(&node, CONTROL, WeftOptions::default())?);
        Ok(())
    }

    /// Starts `weft agent` over TLS with this token and these roots, in place of one that runs.
    pub fn start_agent_with(&mut self, token: &str, roots: &str) -> Result<()> {
        self.agent = None;
        let node = self.lab.node("n1")?;
        let (token_file, roots_file) =
            (self.lab.dir().join("token"), self.lab.dir().join("ca.pem"));
        std::fs::write(&token_file, token)?;
        std::fs::set_permissions(&token_file, std::fs::Permissions::from_mode(0o600))?;
        std::fs::write(&roots_file, roots)?;
        let options = WeftOptions::default()
            .arg("--join-token-file")
            .arg(&token_file)
            .arg("--ca-bundle")
            .arg(&roots_file);
        self.agent = Some(Weft::protected_agent(&node, CONTROL, options)?);
        Ok(())
    }

    /// What the agent has logged.
    pub fn agent_log(&mut self) -> String {
        self.agent
            .as_mut()
            .map_or_else(String::new, |agent| agent.process().stderr())
    }

    /// "namespace/name" of the services that the kernel has, whether or not the agent is synced.
    pub fn known_services(&self) -> Result<Vec<String>> {
        let agent = self.agent.as_ref().context("no agent was started")?;
        let list = eventually(|| Ok(agent.cli_json(&["services"])?))?;
        names(&list)
    }

    /// The agent, once it is synced.
    pub fn agent(&self) -> Result<&Weft> {
        let agent = self.agent.as_ref().context("no agent was started")?;
        agent.wait_ready(PATIENCE)?;
        Ok(agent)
    }

    /// What the control plane says of itself.
    pub fn status(&self) -> Result<Value> {
        let address: SocketAddr = STATUS.parse()?;
        let node = self.lab.node("n1")?;
        let netns = node.netns();
        netns.run(|| -> Result<Value> {
            let url = format!("http://{address}/status");
            let mut answer = ureq::get(url).call()?;
            Ok(answer.body_mut().read_json()?)
        })?
    }

    /// What the control plane has logged.
    pub fn log(&self) -> String {
        self.control
            .as_ref()
            .map_or_else(String::new, Process::stderr)
    }

    /// Messages of what the control plane finds wrong.
    pub fn problems(&self) -> Result<Vec<String>> {
        let status = self.status()?;
        let list = status["problems"].as_array().context("no problems")?;
        let line = |p: &Value| {
            let text = |field: &str| p[field].as_str().unwrap_or_default().to_owned();
            format!("{}: {}: {}", text("object"), text("field"), text("message"))
        };
        Ok(list.iter().map(line).collect())
    }

    /// "namespace/name" of the services that the kernel has.
    pub fn services(&self) -> Result<Vec<String>> {
        names(&self.agent()?.cli_json(&["services"])?)
    }

    /// Addresses of the backends that the kernel has.
    pub fn backends(&self) -> Result<Vec<String>> {
        let list = self.agent()?.cli_json(&["backends"])?;
        let list = list.as_array().context("backends are no list")?.clone();
        let mut addresses: Vec<String> = list
            .iter()
            .filter_map(|b| Some(b["address"].as_str()?.to_owned()))
            .collect();
        addresses.sort();
        addresses.dedup();
        Ok(addresses)
    }
}

fn names(services: &Value) -> Result<Vec<String>> {
    let list = services.as_array().context("services are no list")?;
    let name = |s: &Value| Some(s["service"].as_str()?.to_owned());
    let mut names: Vec<String> = list.iter().filter_map(name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Tries until it succeeds; the last error says why it did not.
pub fn eventually<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() > deadline => bail!("not in time: {error:#}"),
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
}
