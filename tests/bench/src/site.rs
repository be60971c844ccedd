//! One peer's part of the lab: two nodes, a client pod, a server pod on each node.
//!
//! ```text
//!   client pod ───┐
//!                 near node ── far node ── far server (10.136.0.0/13)
//!   near server ──┘
//!   (10.128.0.0/13)
//! ```
//! The peer under test runs on both nodes, as in a cluster; what it costs to start it,
//! its memory and its CPU are measured on the near one.

use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use weft_lab::{Lab, LabBuilder, Node, Pod, PodSpec, Process};

use crate::load::{Job, Outcome};
use crate::plan::{CLIENT_CIDR, CLUSTER_CIDR, FAR_CIDR, NEAR_CIDR, PORT};

/// Server threads: one per core of a small machine.
pub const SERVER_THREADS: u8 = 2;
/// Patience with a load process that starts.
const START: Duration = Duration::from_secs(10);

/// A running site.
pub struct Site {
    /// The client pod's process.
    pub client: LoadClient,
    /// The node that the peer under test looks after.
    pub node: Node,
    _servers: Vec<Process>,
}

impl Site {
    /// Adds the nodes and pods of site `name` to a lab that is being described.
    pub fn describe(lab: LabBuilder, name: &str) -> LabBuilder {
        let near = format!("{name}-near");
        let far = format!("{name}-far");
        lab.node(&near)
            .node(&far)
            .pod(PodSpec::new(format!("{name}-client"), &near))
            .pod(PodSpec::new(format!("{near}-server"), &near))
            .pod(PodSpec::new(format!("{far}-server"), &far))
    }

    /// Wires up what [`Site::describe`] described and starts client and servers.
    pub fn start(lab: &Lab, name: &str) -> Result<Self> {
        let near = lab.node(&format!("{name}-near"))?;
        let far = lab.node(&format!("{name}-far"))?;
        let client = lab.pod(&format!("{name}-client"))?;
        let near_server = lab.pod(&format!("{name}-near-server"))?;
        let far_server = lab.pod(&format!("{name}-far-server"))?;
        own(&near, &client, CLIENT_CIDR)?;
        own(&near, &near_server, NEAR_CIDR)?;
        own(&far, &far_server, FAR_CIDR)?;
        route(&near, FAR_CIDR, far.addresses().v4)?;
        route(&far, CLUSTER_CIDR, near.addresses().v4)?;
        Ok(Self {
            client: LoadClient::start(lab, &client)?,
            node: near,
            _servers: vec![serve(&near_server)?, serve(&far_server)?],
        })
    }

    /// The far node of a site that has been started, with a client in its pod.
    pub fn far_side(lab: &Lab, name: &str) -> Result<Self> {
        Ok(Self {
            client: LoadClient::start(lab, &lab.pod(&format!("{name}-far-server"))?)?,
            node: lab.node(&format!("{name}-far"))?,
            _servers: Vec::new(),
        })
    }
}

/// Gives `pod` all addresses of `cidr`.
fn own(node: &Node, pod: &Pod, cidr: &str) -> Result<()> {
    pod.netns()
        .ip(&format!("route add local {cidr} dev lo\n"))?;
    let via = pod.addresses().v4;
    node.netns().ip(&format!(
        "route add {cidr} via {via} dev {}\n",
        pod.host_link()
    ))?;
    Ok(())
}

fn route(node: &Node, cidr: &str, via: Ipv4Addr) -> Result<()> {
    Ok(node.netns().ip(&format!(
        "route add {cidr} via {via} dev {}\n",
        node.uplink()
    ))?)
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("finding the bench's own program")
}

pub(crate) fn serve(pod: &Pod) -> Result<Process> {
    serve_as("serve", pod, PORT)
}

/// One of the servers that this program has, by its subcommand; with a thread for each core.
pub(crate) fn serve_as(kind: &str, pod: &Pod, port: u16) -> Result<Process> {
    let threads = SERVER_THREADS.to_string();
    serve_by(
        pod,
        &[kind, "--port", &port.to_string(), "--threads", &threads],
    )
}

/// The server that blocks, with a thread for each connection.
pub(crate) fn serve_blocking(pod: &Pod, port: u16) -> Result<Process> {
    serve_by(pod, &["serve-blocking", "--port", &port.to_string()])
}

fn serve_by(pod: &Pod, words: &[&str]) -> Result<Process> {
    let mut server = pod.command(this_program()?).args(words).spawn()?;
    server.wait_for_line("ready", START)?;
    Ok(server)
}

/// The load client inside a pod.
pub struct LoadClient {
    jobs: UnixStream,
    outcomes: BufReader<UnixStream>,
    _process: Process,
}

impl LoadClient {
    pub(crate) fn start(lab: &Lab, pod: &Pod) -> Result<Self> {
        let socket = lab.dir().join("run").join(format!("{}.sock", pod.name()));
        let command = pod
            .command(this_program()?)
            .args(["client", "--socket"])
            .arg(&socket);
        let mut process = command.spawn()?;
        process.wait_for_line("ready", START)?;
        let jobs = UnixStream::connect(&socket).context("connecting to the load client")?;
        let outcomes = jobs
            .try_clone()
            .context("sharing the load client's socket")?;
        Ok(Self {
            jobs,
            outcomes: BufReader::new(outcomes),
            _process: process,
        })
    }

    /// Sends a job without waiting for it.
    pub fn begin(&mut self, job: &Job) -> Result<()> {
        let mut line = serde_json::to_vec(job).context("writing a job")?;
        line.push(b'\n');
        self.jobs
            .write_all(&line)
            .context("sending a job to the load client")
    }

    /// Waits for the job that was begun.
    pub fn finish(&mut self) -> Result<Outcome> {
        let mut line = String::new();
        if self
            .outcomes
            .read_line(&mut line)
            .context("waiting for the load client")?
            == 0
        {
            bail!("the load client has ended");
        }
        match serde_json::from_str(&line).context("the load client's answer is not valid")? {
            Outcome::Failed(reason) => bail!("load client: {reason}"),
            outcome => Ok(outcome),
        }
    }

    /// Does a job from beginning to end.
    pub fn run(&mut self, job: &Job) -> Result<Outcome> {
        self.begin(job)?;
        self.finish()
    }
}
