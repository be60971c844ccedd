//! Turns: each round begins with another lane, and each lane does the same work.

use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use weft_lab::Lab;

use super::site::{BLOCKING_PORT, CHURN_PORT, Site, Way};
use crate::interrupt;
use crate::load::{Blocking, Connections, Job, Polled, Range, Targets};
use crate::sidecars::programs;
use crate::site::SERVER_THREADS;
use crate::stats::Spread;

/// Parallel connections of wrk.
const WRK: u32 = 16;
/// Threads that open connections.
const CHURN_THREADS: usize = 8;
/// Length of the turn that is thrown away before the first round, milliseconds.
const WARM_UP_MS: u64 = 50;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Load {
    /// A message of so many bytes and an answer of as many, one at a time for each connection.
    Exchange { size: u32, connections: usize },
    /// The same over sockets that block, as netperf's `TCP_RR` has them.
    Blocking { size: u32, connections: usize },
    /// Messages one way, over one connection.
    Stream { size: u32, nodelay: bool },
    /// wrk and nginx.
    Wrk,
    /// Connect, 64 bytes each way, close.
    NewConnections,
}

/// One comparison.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Case {
    pub(super) load: Load,
    /// The first is what the other is compared with.
    pub(super) lanes: Vec<Lane>,
}

/// One way in a comparison.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Lane {
    pub(super) way: Way,
    pub(super) turns: Vec<Turn>,
    /// That went from socket to socket in all its turns.
    pub(super) accelerated_bytes: u64,
}

/// One turn.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Turn {
    /// Messages, requests or connections.
    pub(super) per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// CPU time of both pods for each of them, microseconds.
    pub(super) cpu_us: f64,
}

impl Case {
    pub(super) fn new(load: Load, ways: &[Way]) -> Self {
        let lane = |way: &Way| Lane {
            way: *way,
            turns: Vec::new(),
            accelerated_bytes: 0,
        };
        Self {
            load,
            lanes: ways.iter().map(lane).collect(),
        }
    }

    pub(super) fn title(&self) -> String {
        match self.load {
            Load::Exchange { size, connections } => {
                format!("{} there and back, {connections} at a time", bytes(size))
            }
            Load::Blocking { size, connections } => {
                format!(
                    "{} there and back, {connections} at a time, blocking",
                    bytes(size)
                )
            }
            Load::Stream { size, nodelay } => {
                let how = if nodelay { ", TCP_NODELAY" } else { "" };
                format!("stream of {}{how}", bytes(size))
            }
            Load::Wrk => format!("wrk, {WRK} connections"),
            Load::NewConnections => "new connections".to_owned(),
        }
    }

    /// Whether single operations were timed.
    pub(super) fn has_latency(&self) -> bool {
        !matches!(self.load, Load::Stream { .. })
    }

    pub(super) fn take_turns(
        &mut self,
        lab: &Lab,
        sites: &mut [Site],
        rounds: u32,
        millis: u64,
    ) -> Result<()> {
        let load = self.load;
        // A stream is no stream at its beginning.
        let millis = if self.has_latency() {
            millis
        } else {
            2 * millis
        };
        let places = self.lanes.len();
        for round in 0..=rounds as usize {
            for place in 0..places {
                interrupt::check()?;
                let lane = &mut self.lanes[(place + round) % places];
                let Some(site) = sites.iter_mut().find(|site| site.way == lane.way) else {
                    continue;
                };
                if round == 0 {
                    turn(lab, site, load, WARM_UP_MS)?;
                    continue;
                }
                let before = site.accelerated_bytes()?;
                lane.turns.push(turn(lab, site, load, millis)?);
                lane.accelerated_bytes += site.accelerated_bytes()? - before;
            }
        }
        Ok(())
    }
}

impl Lane {
    /// To another lane, round by round: what slows a whole round down cancels out.
    pub(super) fn ratio(&self, base: &Self, field: fn(&Turn) -> f64) -> Option<Spread> {
        let pairs = self.turns.iter().zip(&base.turns);
        let ratios = pairs.map(|(own, base)| field(own) / field(base));
        Spread::of(ratios.filter(|ratio| ratio.is_finite()))
    }
}

/// As people write it.
pub(super) fn bytes(size: u32) -> String {
    match size {
        size if size >= 1024 => format!("{} KiB", size / 1024),
        size => format!("{size} B"),
    }
}

fn turn(lab: &Lab, site: &mut Site, load: Load, millis: u64) -> Result<Turn> {
    let before = used(site)?;
    let (per_second, p50_us, p99_us, seconds) = match load {
        Load::Wrk => {
            // wrk knows whole seconds only.
            let seconds = millis.div_ceil(1_000);
            let url = format!("http://{}/get", site.server.addresses().v4);
            let wrk = programs::wrk(lab, &site.client, &url, WRK, seconds)?;
            anyhow::ensure!(
                wrk.failed == 0,
                "{}: {} failed",
                site.way.title(),
                wrk.failed
            );
            (wrk.per_second, wrk.p50_us, wrk.p99_us, seconds as f64)
        }
        load => {
            let job = job(site, load, millis);
            let (rate, p50, p99) = site.run(&job)?;
            (rate, p50, p99, millis as f64 / 1e3)
        }
    };
    let used = used(site)? - before;
    Ok(Turn {
        per_second,
        p50_us,
        p99_us,
        cpu_us: used / (per_second * seconds).max(1.0),
    })
}

fn job(site: &Site, load: Load, millis: u64) -> Job {
    match load {
        Load::Exchange { size, connections } => Job::Polled(site.polled(size, connections, millis)),
        Load::Blocking { size, connections } => Job::Blocking(Blocking {
            target: site.server.socket_v4(BLOCKING_PORT),
            size,
            connections,
            cores: SERVER_THREADS,
            millis,
        }),
        Load::Stream { size, nodelay } => Job::Polled(Polled {
            answered: false,
            nodelay,
            ..site.polled(size, 1, millis)
        }),
        Load::Wrk | Load::NewConnections => Job::Connections(Connections {
            targets: Targets {
                ranges: vec![Range::one(site.server.addresses().v4)],
                port: CHURN_PORT,
            },
            sources: Range::one(site.client.addresses().v4),
            threads: CHURN_THREADS,
            millis,
        }),
    }
}

/// CPU time of the node's pods so far, microseconds.
fn used(site: &Site) -> Result<f64> {
    let path = site.node.cgroup().join("cpu.stat");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    line.and_then(|n| n.parse().ok())
        .context("cpu.stat without usage_usec")
}
