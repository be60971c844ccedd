//! The two nodes, their pods and the agents.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use weft_lab::weft::cleanup;
use weft_lab::{Lab, Output, Pod, Process, ServeOptions, Weft, WeftOptions, bpffs, tools};

use crate::talk;
use crate::traces::{self, Traces};

/// Ports that the pods of `deploy/demo` serve.
pub(crate) const WEB_PORT: u16 = 8080;
const DNS_PORT: u16 = 5353;
pub(crate) const HTTP_PORT: u16 = 8000;
/// What web-1 and web-2, and web-3, serve by HTTP: their label `version`.
pub(crate) const VERSIONS: [&str; 2] = ["v1", "v2"];
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Addresses of the services of `deploy/demo`.
pub(crate) const WEB: &str = "10.96.0.10:80";
pub(crate) const WEB_V6: &str = "[fd00:96::10]:80";
pub(crate) const DNS: &str = "10.96.0.53:53";
pub(crate) const NOBODY: &str = "10.96.0.99:80";

/// Everything that runs during the demo.
pub(crate) struct Stage {
    // Order of drop: clients and servers first, then the agents, the lab last.
    _servers: Vec<Process>,
    pub(crate) agents: Vec<Weft>,
    pub(crate) lab: Lab,
    source: PathBuf,
    /// The nodes have one.
    pub(crate) has_envoy: bool,
    /// What the agents tell of connections.
    pub(crate) traces: Traces,
}

impl Stage {
    /// Builds the lab from a folder of manifests, starts the pods' servers and `weft up` on each node.
    pub(crate) fn raise(manifests: &Path) -> Result<Self> {
        talk::title("Two nodes, seven pods, each a network namespace; `weft up` on each node");
        let lab = Lab::builder()
            .manifests(manifests)
            .with_context(|| format!("manifests in {}", manifests.display()))?
            .build()?;
        let mut servers = Vec::new();
        for pod in lab.pods() {
            match pod.name().split_once('-') {
                Some(("web", _)) => servers.push(pod.serve(&ServeOptions::tcp(WEB_PORT))?),
                Some(("dns", _)) => servers.push(pod.serve(&ServeOptions::udp(DNS_PORT))?),
                _ => {}
            }
        }
        let envoy = tools::workspace().join(".cache/envoy/envoy");
        let has_envoy = envoy.exists();
        // One CA for both: with one of its own, each node would trust itself alone.
        let ca = lab.dir().join("ca");
        let mut options = WeftOptions::default().arg("--otlp").arg(traces::URL);
        options = options.arg("--ca-dir").arg(ca);
        if has_envoy {
            options = options.arg("--envoy").arg(envoy);
        }
        let traces = Traces::default();
        let mut agents = Vec::new();
        for node in lab.nodes() {
            traces.receive_on(node)?;
            let agent = Weft::up(node, lab.manifests(), options.clone())?;
            // The first makes the CA.
            agent.wait_ready(READY_WITHIN)?;
            agents.push(agent);
        }
        let stage = Self {
            _servers: servers,
            agents,
            lab,
            source: manifests.to_owned(),
            has_envoy,
            traces,
        };
        stage.wait_ready()?;
        Ok(stage)
    }

    /// Waits until every agent has synced.
    pub(crate) fn wait_ready(&self) -> Result<()> {
        for agent in &self.agents {
            agent.wait_ready(READY_WITHIN)?;
        }
        Ok(())
    }

    /// The pod that asks.
    pub(crate) fn client(&self) -> Result<Pod> {
        Ok(self.lab.pod("client")?)
    }

    /// What a command of the CLI says against the first node's agent.
    pub(crate) fn ask(&self, args: &[&str]) -> Result<Output> {
        let agent = self.agents.first().context("no agent runs")?;
        Ok(agent.cli(args)?.success()?)
    }

    /// Shows such a command; returns what it said.
    pub(crate) fn show(&self, args: &[&str]) -> Result<String> {
        let output = self.ask(args)?;
        talk::command(&format!("weft {}", args.join(" ")), &output);
        Ok(output.stdout)
    }

    /// Puts a file of `routes/` beside the other manifests.
    pub(crate) fn add_route(&self, name: &str) -> Result<()> {
        let path = self.source.join("routes").join(format!("{name}.yaml"));
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(self.lab.manifests().write(name, &text)?)
    }

    /// Starts an HTTP server in each web pod, which calls itself by its version.
    pub(crate) fn serve_http(&self) -> Result<Vec<Process>> {
        let script = tools::workspace().join("tests/e2e/fixtures/http_server.py");
        let mut servers = Vec::new();
        for pod in self.lab.pods() {
            let version = match pod.name() {
                "web-1" | "web-2" => VERSIONS[0],
                "web-3" => VERSIONS[1],
                _ => continue,
            };
            let server = pod.command("python3").arg(&script).arg(version);
            let mut server = server.arg(HTTP_PORT.to_string()).spawn()?;
            server.wait_for_line("ready", READY_WITHIN)?;
            servers.push(server);
        }
        Ok(servers)
    }

    /// Puts a policy of `policies/` beside the other manifests.
    pub(crate) fn add_policy(&self, name: &str) -> Result<()> {
        let path = self.source.join("policies").join(format!("{name}.yaml"));
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(self.lab.manifests().write(name, &text)?)
    }

    /// Puts a manifest back that was removed.
    pub(crate) fn put_back(&self, name: &str) -> Result<()> {
        let path = self.source.join(format!("{name}.yaml"));
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(self.lab.manifests().write(name, &text)?)
    }

    /// Says how to look around while it all runs.
    pub(crate) fn describe(&self) {
        talk::title(
            "It all runs on. Look around from another terminal, and press Enter here to end it:",
        );
        if let Some(node) = self.lab.nodes().first() {
            println!("  weft services --run-dir {}", node.run_dir().display());
        }
        println!(
            "  nsenter --net=/run/netns/{}-p-client ss -tn",
            self.lab.name()
        );
        println!("  edit {}", self.lab.manifests().dir().display());
    }

    /// Stops the agents, removes what they left in the kernel, and takes the lab down.
    pub(crate) fn strike(self) -> Result<()> {
        let Self {
            _servers: servers,
            mut agents,
            lab,
            ..
        } = self;
        talk::title("Stop: agents end, `weft cleanup` removes programs, maps and pins");
        for agent in &mut agents {
            agent.stop()?;
        }
        for node in lab.nodes() {
            cleanup(node)?;
            let pins = bpffs::pins(node.bpffs())?;
            anyhow::ensure!(pins.is_empty(), "{}: still pinned: {pins:?}", node.name());
        }
        talk::holds("no pin is left");
        drop(servers);
        lab.close()?;
        Ok(())
    }
}

/// A service address of this file.
pub(crate) fn address(text: &str) -> Result<SocketAddr> {
    text.parse().with_context(|| format!("address {text}"))
}
