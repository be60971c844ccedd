//! What it costs to tell of connections: new connections between two pods of a node, without events, with them, and with a span for
//! each end of each connection sent to a collector. The lanes take turns, so that whatever else the machine does falls on all alike.

mod sink;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use weft_lab::{Lab, Node, PodSpec, Process, Weft, WeftOptions};

use crate::interrupt;
use crate::load::{Connections, Job, Outcome, Range, Targets};
use crate::plan::PORT;
use crate::site::{LoadClient, serve};
use crate::stats::quantile;
use crate::usage::Usage;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Rounds; each has a turn of each lane
    #[arg(long, default_value_t = 18)]
    rounds: u32,
    /// Length of a turn, milliseconds
    #[arg(long, default_value_t = 2_000)]
    slice_ms: u64,
    /// Parallel connections of the client
    #[arg(long, default_value_t = 8)]
    threads: usize,
}

const READY: Duration = Duration::from_secs(120);
/// What is on its way to the collector after a turn has so long.
const SETTLED: Duration = Duration::from_secs(60);
const WARM_UP_MS: u64 = 200;
const METRICS: &str = "http://127.0.0.1:15020/metrics";

/// Name in the lab, title, and options of the agent.
const LANES: [(&str, &str, &[&str]); 3] = [
    ("off", "events off", &["--flow-events", "off"]),
    ("on", "events on", &[]),
    (
        "traced",
        "all traced",
        &["--otlp", sink::URL, "--flow-history", "200000"],
    ),
];

struct Site {
    title: &'static str,
    node: Node,
    client: LoadClient,
    job: Connections,
    weft: Weft,
    _server: Process,
    turns: Vec<Turn>,
}

struct Turn {
    per_second: f64,
    /// Of the agent, for each connection.
    cpu_us: f64,
}

/// Measures and prints.
///
/// # Errors
/// When the lab or an agent does not start.
pub fn run(options: &Options) -> Result<()> {
    interrupt::watch()?;
    let mut builder = Lab::builder();
    for (name, _, _) in LANES {
        builder = builder.node(name);
        for pod in ["client", "server"] {
            let spec = PodSpec::new(format!("{name}-{pod}"), name).namespace(name);
            builder = builder.pod(spec.label("app", pod));
        }
    }
    let lab = builder.build()?;
    lab.publish()?;
    let mut sites = Vec::new();
    for (name, title, args) in LANES {
        sites.push(Site::start(&lab, name, title, args, options)?);
    }
    for site in &mut sites {
        site.turn(WARM_UP_MS)?;
        site.turns.clear();
    }
    for round in 0..options.rounds as usize {
        for place in 0..sites.len() {
            interrupt::check()?;
            let index = (place + round) % sites.len();
            sites[index].turn(options.slice_ms)?;
        }
    }
    report(&sites)
}

impl Site {
    fn start(
        lab: &Lab,
        name: &str,
        title: &'static str,
        args: &[&str],
        options: &Options,
    ) -> Result<Self> {
        let node = lab.node(name)?;
        sink::start(&node)?;
        let mut weft = WeftOptions::default().arg("--envoy").arg("none");
        for arg in args {
            weft = weft.arg(*arg);
        }
        let weft = Weft::up(&node, lab.manifests(), weft)?;
        weft.wait_ready(READY)?;
        let pod = |which: &str| lab.pod(&format!("{name}-{which}"));
        let (client, server) = (pod("client")?, pod("server")?);
        let job = Connections {
            targets: Targets {
                ranges: vec![Range::one(server.addresses().v4)],
                port: PORT,
            },
            sources: Range::one(client.addresses().v4),
            threads: options.threads,
            millis: 0,
        };
        Ok(Self {
            title,
            node,
            _server: serve(&server)?,
            client: LoadClient::start(lab, &client)?,
            job,
            weft,
            turns: Vec::new(),
        })
    }

    fn turn(&mut self, millis: u64) -> Result<()> {
        let pid = self.weft.process().pid();
        let before = Usage::of(pid)?.cpu_seconds;
        let job = Job::Connections(Connections {
            millis,
            ..self.job.clone()
        });
        let outcome = self.client.run(&job)?;
        let Outcome::Rate {
            per_second, failed, ..
        } = outcome
        else {
            bail!("the load client answered {outcome:?}");
        };
        ensure!(failed == 0, "{failed} connections failed");
        // What the agent still has to do is its own, and not the next lane's.
        self.settle()?;
        let used = Usage::of(pid)?.cpu_seconds - before;
        let connections = per_second * millis as f64 / 1_000.0;
        self.turns.push(Turn {
            per_second,
            cpu_us: used * 1e6 / connections.max(1.0),
        });
        Ok(())
    }

    /// Waits until nothing changes any more.
    fn settle(&self) -> Result<()> {
        let deadline = Instant::now() + SETTLED;
        let mut last = self.told()?;
        while Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1_200));
            let now = self.told()?;
            if now == last {
                return Ok(());
            }
            last = now;
        }
        bail!("{}: spans are still on their way", self.title)
    }

    /// Counters of what was told, by name and outcome.
    fn told(&self) -> Result<BTreeMap<String, f64>> {
        let scrape = || ureq::get(METRICS).call()?.body_mut().read_to_string();
        let text = self.node.netns().run(scrape)?.context("/metrics")?;
        let wanted = |line: &&str| {
            [
                "weft_flows_total",
                "weft_otlp_spans_total",
                "weft_otlp_flows_overtaken_total",
            ]
            .iter()
            .any(|name| line.starts_with(name))
                || line.contains("events_lost")
        };
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        };
        Ok(text.lines().filter(wanted).filter_map(sample).collect())
    }
}

fn report(sites: &[Site]) -> Result<()> {
    let off = sites.first().context("no lane")?;
    for site in sites {
        let rates: Vec<f64> = site.turns.iter().map(|turn| turn.per_second).collect();
        let cpu: Vec<f64> = site.turns.iter().map(|turn| turn.cpu_us).collect();
        let pairs = off.turns.iter().zip(&site.turns);
        let ratios: Vec<f64> = pairs.map(|(o, s)| s.per_second / o.per_second).collect();
        let at = |samples: &[f64], share| quantile(samples, share).unwrap_or_default();
        println!(
            "{:<12} {:>8.0} connections/s, {:.3} of events off ({:.3} to {:.3}), agent {:.1} µs of CPU each",
            site.title,
            at(&rates, 0.5),
            at(&ratios, 0.5),
            at(&ratios, 0.25),
            at(&ratios, 0.75),
            at(&cpu, 0.5),
        );
        for (series, value) in site.told()? {
            println!("    {series} {value}");
        }
    }
    Ok(())
}
