//! One lane's part of the lab: two nodes, each with an agent, and their pods.
//!
//! ```text
//!   client ──────┐
//!   near server ─┼─ near node ── far node ── far server
//!   idle pods ───┘
//! ```

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use weft_lab::{Lab, LabBuilder, Manifests, Node, Pod, PodSpec, Process};

use super::{Crowd, Settings, manifests};
use crate::load::Range;
use crate::site::{LoadClient, serve};

/// Patience with agents that get ready.
const READY: Duration = Duration::from_secs(120);

/// A running site.
pub(super) struct Site {
    /// `None`: no mesh.
    pub(super) crowd: Option<Crowd>,
    /// The client pod's process.
    pub(super) client: LoadClient,
    /// The client's address.
    pub(super) source: Range,
    /// Address of the server on the client's node.
    pub(super) near: Range,
    /// Address of the server on the other node.
    pub(super) far: Range,
    _servers: [Process; 2],
    _agents: Vec<Process>,
}

impl Site {
    /// Adds the nodes and pods of a site to a lab that is being described.
    pub(super) fn describe(lab: LabBuilder, crowd: Option<Crowd>) -> LabBuilder {
        let name = name(crowd);
        let (near, far) = (format!("{name}-near"), format!("{name}-far"));
        let mut lab = lab.node(&near).node(&far);
        for (pod, node) in [("client", &near), ("server", &near), ("far", &far)] {
            lab = lab.pod(PodSpec::new(format!("{name}-{pod}"), node).label("app", pod));
        }
        for index in 0..crowd.map_or(0, |crowd| crowd.pods) {
            let spec = PodSpec::new(format!("{name}-idle-{index:03}"), &near);
            lab = lab.pod(spec.label("app", format!("idle-{index:03}")));
        }
        lab
    }

    /// Starts servers, client and, where there is a mesh, an agent on each node.
    pub(super) fn start(lab: &Lab, crowd: Option<Crowd>, settings: &Settings) -> Result<Self> {
        let name = name(crowd);
        let pod = |pod: &str| lab.pod(&format!("{name}-{pod}"));
        let (client, server, far) = (pod("client")?, pod("server")?, pod("far")?);
        let servers = [serve(&server)?, serve(&far)?];
        let mut agents = Vec::new();
        if let Some(crowd) = crowd {
            let folder = lab.dir().join(format!("policies-{name}"));
            fs::create_dir(&folder).context("making the folder of manifests")?;
            let nodes = ["near", "far"].map(|side| lab.node(&format!("{name}-{side}")));
            let nodes = nodes.into_iter().collect::<Result<Vec<_>, _>>()?;
            let own: Vec<Pod> = lab
                .pods()
                .into_iter()
                .filter(|pod| nodes.iter().any(|node| node.name() == pod.node()))
                .collect();
            manifests::write(&Manifests::new(&folder), &nodes, &own, crowd)?;
            for node in &nodes {
                agents.push(agent(node, &folder, settings)?);
            }
        }
        Ok(Self {
            crowd,
            source: address(&client),
            near: address(&server),
            far: address(&far),
            client: LoadClient::start(lab, &client)?,
            _servers: servers,
            _agents: agents,
        })
    }
}

fn name(crowd: Option<Crowd>) -> String {
    match crowd {
        None => "plain".to_owned(),
        Some(Crowd { policies, .. }) => format!("p{policies}"),
    }
}

fn address(pod: &Pod) -> Range {
    let v4: Ipv4Addr = pod.addresses().v4;
    Range::one(v4)
}

/// `weft up` on a node, ready.
fn agent(node: &Node, manifests: &PathBuf, settings: &Settings) -> Result<Process> {
    let process = node
        .agent_place()
        .command(&settings.weft)
        .args(["up", "--node", node.name(), "--uplink", node.uplink()])
        .arg("--manifests")
        .arg(manifests)
        .arg("--cgroup")
        .arg(node.cgroup())
        .arg("--bpffs")
        .arg(node.bpffs())
        .arg("--run-dir")
        .arg(node.run_dir())
        .args(["--envoy", "none"])
        .spawn()?;
    let seconds = READY.as_secs().to_string();
    node.command(&settings.weft)
        .args(["status", "--wait", &seconds, "--run-dir"])
        .arg(node.run_dir())
        .run(READY + Duration::from_secs(5))?
        .success()
        .with_context(|| {
            format!(
                "the agent of {} did not get ready:\n{}",
                node.name(),
                process.stderr()
            )
        })?;
    Ok(process)
}
