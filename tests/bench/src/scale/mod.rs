//! One control plane with a large cluster and many nodes: what it costs, and what one change costs.
//!
//! The nodes are synthetic: each is a connection with a delta-ADS stream that asks for what an agent asks for, acknowledges all, and
//! keeps the names. The control plane is a process of its own (`weft control`), reading a folder of manifests, over loopback without TLS.

mod agent;
mod client;
mod world;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio::task::JoinSet;

use self::client::{Seen, Sink};
use self::world::World;
use crate::interrupt;
use crate::stats::quantile;
use crate::usage::Usage;

/// How large, and how much changes.
#[derive(Args)]
pub struct Options {
    /// Services of one port
    #[arg(long, default_value_t = 10_000)]
    services: u32,
    /// Endpoints of all services together, in one EndpointSlice for each service
    #[arg(long, default_value_t = 100_000)]
    endpoints: u32,
    /// Pods, on as many nodes as there are agents
    #[arg(long, default_value_t = 50_000)]
    pods: u32,
    /// Connected agents
    #[arg(long, default_value_t = 1_000)]
    agents: u32,
    /// Changes of an EndpointSlice, one after the other
    #[arg(long, default_value_t = 100)]
    changes: u32,
    /// At the end also a real agent: needs root, and is best run in a network namespace of its own (`unshare -n`, with `lo` up)
    #[arg(long)]
    real_agent: bool,
    /// The program
    #[arg(long, env = "WEFT_BIN", default_value = "target/release/weft")]
    weft: PathBuf,
    /// Also write the figures as JSON to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The control plane; ends when dropped.
struct Control {
    child: Child,
    address: SocketAddr,
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Control {
    fn start(options: &Options, world: &World) -> Result<Self> {
        let [address, metrics] = [free_address()?, free_address()?];
        let child = Command::new(&options.weft)
            .arg("control")
            .args(["--log", "warn", "--insecure", "--manifests"])
            .arg(world.folder())
            .args(["--listen", &address.to_string()])
            .args(["--metrics", &metrics.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", options.weft.display()))?;
        Ok(Self { child, address })
    }

    fn usage(&self) -> Result<Usage> {
        Usage::of(self.child.id())
    }
}

fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?)
}

/// Measures and prints.
///
/// # Errors
/// When the control plane cannot be started, or an agent does not get what it should.
pub fn run(options: &Options) -> Result<()> {
    interrupt::watch()?;
    let world = World::write(
        options.services,
        options.endpoints,
        options.pods,
        options.agents,
    )?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let figures = runtime.block_on(async {
        tokio::select! {
            figures = measure(options, &world) => figures,
            error = interrupted() => Err(error),
        }
    })?;
    println!("{}", serde_json::to_string_pretty(&figures)?);
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_string_pretty(&figures)? + "\n")?;
    }
    Ok(())
}

/// Returns once a signal has come: what was started ends as it is dropped.
async fn interrupted() -> anyhow::Error {
    loop {
        if let Err(error) = interrupt::check() {
            return error;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn measure(options: &Options, world: &World) -> Result<serde_json::Value> {
    let started = Instant::now();
    let control = Control::start(options, world)?;
    let sink = Arc::new(Sink::new(options.agents, world.resources()));
    let mut agents = JoinSet::new();

    let first = Arc::clone(&sink);
    agents.spawn(client::run(control.address, 0, first));
    sink.wait_synced(1, Duration::from_secs(300)).await?;
    let read = (started.elapsed(), control.usage()?);
    eprintln!("read, and one agent in sync: {:?}", read.0);

    let joining = Instant::now();
    for number in 1..options.agents {
        agents.spawn(client::run(control.address, number, Arc::clone(&sink)));
    }
    sink.wait_synced(options.agents, Duration::from_secs(1200))
        .await?;
    let joined = (joining.elapsed(), control.usage()?);
    eprintln!("all in sync: {:?}", joined.0);
    let sent = sink.bytes();

    let mut latencies = Vec::new();
    let mut counted = Seen::default();
    for change in 0..options.changes {
        sink.reset();
        let now = Instant::now();
        world.change(change)?;
        sink.wait_seen(options.agents, Duration::from_secs(60))
            .await?;
        latencies.push(now.elapsed().as_secs_f64() * 1000.0);
        counted = sink.seen();
        ensure!(
            counted.resources == u64::from(options.agents)
                && counted.endpoints == counted.resources,
            "a change sent {counted:?} to {} agents",
            options.agents
        );
    }
    let settled = control.usage()?;
    if let Some(ended) = agents.try_join_next() {
        ended??;
    }
    let real = match options.real_agent {
        true => {
            let (weft, address) = (options.weft.clone(), control.address);
            // A node that has no pods: what they would add is theirs, not the cluster's.
            let agent = move || agent::sync(&weft, address, "node-none");
            Some(tokio::task::spawn_blocking(agent).await??)
        }
        false => None,
    };
    Ok(serde_json::json!({
        "realAgent": real,
        "services": options.services,
        "endpoints": options.endpoints,
        "pods": options.pods,
        "agents": options.agents,
        "resourcesOfEachAgent": world.resources(),
        "readSeconds": read.0.as_secs_f64(),
        "withOneAgent": read.1,
        "joinSeconds": joined.0.as_secs_f64(),
        "sentMiB": sent as f64 / f64::from(1 << 20),
        "withAllAgents": joined.1,
        "changes": options.changes,
        "resourcesSentByOneChange": counted.resources,
        "responsesSentByOneChange": counted.responses,
        "changeToLastAgentMs": {
            "p50": quantile(&latencies, 0.5),
            "p99": quantile(&latencies, 0.99),
            "max": quantile(&latencies, 1.0),
        },
        "cpuSecondsOfAChange": (settled.cpu_seconds - joined.1.cpu_seconds) / f64::from(options.changes.max(1)),
        "atTheEnd": settled,
    }))
}
