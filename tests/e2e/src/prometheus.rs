//! Prometheus itself, which scrapes a node's agent, and promtool.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_lab::{Node, Output, Process};

use crate::Result;
use crate::wait::LONG;

/// Where it listens, on its node.
pub const ADDRESS: &str = "127.0.0.1:9090";
/// Where an agent tells of itself unless it is asked to elsewhere.
const AGENT: &str = "127.0.0.1:15020";

/// A program of the package that scripts/install-prometheus has fetched.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn tool(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/prometheus");
    let path = folder.join(name);
    assert!(
        path.exists(),
        "no {}: run scripts/install-prometheus",
        path.display()
    );
    path
}

/// A file of deploy/dashboards.
#[must_use]
pub fn deployed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/dashboards")
        .join(file)
}

/// A running Prometheus; it ends when dropped.
pub struct Prometheus {
    node: Node,
    _process: Process,
}

impl Prometheus {
    /// Scrapes the agent of `node` every second, with our own rules.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(node: &Node, folder: &Path) -> Result<Self> {
        Self::start_for(node, folder, 1, &[(node.name(), AGENT.parse()?)])
    }

    /// Runs on `node` and scrapes `agents`, by their nodes' names, every so many seconds.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_for(
        node: &Node,
        folder: &Path,
        seconds: u32,
        agents: &[(&str, SocketAddr)],
    ) -> Result<Self> {
        let config = folder.join("prometheus.yaml");
        let rules = deployed("rules.yaml").canonicalize()?;
        let targets = agents.iter().map(|(name, address)| {
            format!("  - {{targets: ['{address}'], labels: {{instance: {name}}}}}\n")
        });
        fs::write(
            &config,
            format!(
                "global: {{scrape_interval: {seconds}s, evaluation_interval: {seconds}s}}
rule_files: [{rules:?}]
scrape_configs:
- job_name: weft
  static_configs:
{}",
                targets.collect::<String>()
            ),
        )?;
        let command = node
            .command(tool("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("tsdb").display()
            ))
            .arg(format!("--web.listen-address={ADDRESS}"));
        let mut process = command.spawn()?;
        process.wait_for_line("Server is ready", LONG)?;
        Ok(Self {
            node: node.clone(),
            _process: process,
        })
    }

    /// What an expression gives now: one value for each series.
    ///
    /// # Errors
    /// When it is none.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let answer = self.api("query", &[("query", expression)])?;
        let result = answer["data"]["result"].as_array();
        Ok(result.context("no result")?.clone())
    }

    /// Something of its API, as JSON.
    ///
    /// # Errors
    /// When it refuses.
    pub fn api(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let url = format!("http://{ADDRESS}/api/v1/{path}");
        let mut command = self.node.command("curl").args(["-sS", "-G", &url]);
        for (key, value) in parameters {
            command = command
                .arg("--data-urlencode")
                .arg(format!("{key}={value}"));
        }
        let output = command.run(Duration::from_secs(30))?.success()?;
        let answer: Value = serde_json::from_str(&output.stdout)?;
        ensure!(answer["status"] == "success", "{parameters:?}: {answer}");
        Ok(answer)
    }
}

/// Runs promtool on `node`.
///
/// # Errors
/// When it finds something wrong; with what it says.
pub fn promtool(node: &Node, args: &[&str]) -> Result<Output> {
    let output = node.command(tool("promtool")).args(args).run(LONG)?;
    Ok(output.success()?)
}
