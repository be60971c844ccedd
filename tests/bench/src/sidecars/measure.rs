//! Turns: each round begins with another family, and each family does the same work.

use std::fs;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use weft_lab::Lab;

use super::family::Family;
use super::memory::envoy_of;
use super::site::Site;
use super::{ALLOWED_PATH, Options, PORT, TIMEOUT_MS, programs};
use crate::interrupt;
use crate::load::{Job, Outcome, Paced};
use crate::usage::Usage;

/// One comparison.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Case {
    /// Between nodes.
    pub(super) far: bool,
    /// Requests per second that are due; none: as many as can be.
    pub(super) rate: Option<u32>,
    /// Who took part.
    pub(super) lanes: Vec<Lane>,
}

/// One family in a comparison.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Lane {
    /// Which.
    pub(super) family: Family,
    /// One for each round.
    pub(super) turns: Vec<Turn>,
}

/// One turn.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Turn {
    /// Answered requests per second.
    pub(super) per_second: f64,
    /// Median latency.
    pub(super) p50_us: f64,
    /// 99th percentile.
    pub(super) p99_us: f64,
    /// 99.9th percentile, where requests have a time at which they are due.
    pub(super) p999_us: Option<f64>,
    /// Requests that failed, or were not answered with 200.
    pub(super) failed: u64,
    /// CPU time of all processes of the family, microseconds for each request.
    pub(super) cpu_us: f64,
    /// That of proxies and agents.
    pub(super) proxies_us: f64,
}

/// As many requests as `connections` connections carry.
pub(super) fn flood(
    lab: &Lab,
    sites: &mut [Site],
    families: &[Family],
    far: bool,
    options: &Options,
) -> Result<Case> {
    let lanes = take_turns(sites, families, options, |site| {
        let wrk = programs::wrk(
            lab,
            &site.client,
            &site.url(far)?,
            options.connections,
            options.slice_seconds,
        )?;
        Ok(Turn {
            per_second: wrk.per_second,
            p50_us: wrk.p50_us,
            p99_us: wrk.p99_us,
            p999_us: None,
            failed: wrk.failed,
            cpu_us: wrk.requests as f64,
            proxies_us: 0.0,
        })
    })?;
    Ok(Case {
        far,
        rate: None,
        lanes,
    })
}

/// `rate` requests per second, whatever becomes of them.
pub(super) fn paced(
    sites: &mut [Site],
    families: &[Family],
    rate: u32,
    options: &Options,
) -> Result<Case> {
    let seconds = options.paced_seconds;
    let lanes = take_turns(sites, families, options, |site| {
        let url = site.url(true)?;
        let target = url
            .trim_start_matches("http://")
            .trim_end_matches(ALLOWED_PATH);
        let job = Paced {
            target: target
                .parse()
                .with_context(|| format!("{target} (port {PORT}) is no address"))?,
            path: ALLOWED_PATH.to_owned(),
            per_second: rate.into(),
            connections: options.connections as usize,
            millis: seconds * 1_000,
            timeout_ms: TIMEOUT_MS,
        };
        match site.load.run(&Job::Paced(job))? {
            Outcome::Rate {
                per_second,
                latency,
                failed,
            } => Ok(Turn {
                per_second,
                p50_us: latency.p50_us,
                p99_us: latency.p99_us,
                p999_us: Some(latency.p999_us),
                failed,
                cpu_us: per_second * seconds as f64,
                proxies_us: 0.0,
            }),
            other => bail!("the load client answered {other:?}"),
        }
    })?;
    Ok(Case {
        far: true,
        rate: Some(rate),
        lanes,
    })
}

/// `work` leaves the number of requests in `cpu_us`.
fn take_turns(
    sites: &mut [Site],
    families: &[Family],
    options: &Options,
    mut work: impl FnMut(&mut Site) -> Result<Turn>,
) -> Result<Vec<Lane>> {
    let mut lanes: Vec<Lane> = families
        .iter()
        .map(|family| Lane {
            family: *family,
            turns: Vec::new(),
        })
        .collect();
    let places = lanes.len();
    for round in 0..options.rounds as usize {
        for place in 0..places {
            interrupt::check()?;
            let lane = &mut lanes[(place + round) % places];
            let Some(site) = sites.iter_mut().find(|site| site.family == lane.family) else {
                continue;
            };
            let before = used(site)?;
            let turn = work(site)?;
            let after = used(site)?;
            let each = 1e6 / turn.cpu_us.max(1.0);
            lane.turns.push(Turn {
                cpu_us: (after.0 - before.0) * each,
                proxies_us: (after.1 - before.1) * each,
                ..turn
            });
        }
    }
    lanes.retain(|lane| !lane.turns.is_empty());
    Ok(lanes)
}

/// CPU seconds of everything on the site's nodes, and of proxies and agents.
fn used(site: &mut Site) -> Result<(f64, f64)> {
    let mut all = 0.0;
    for node in &site.nodes {
        let path = node.cgroup().join("cpu.stat");
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let micros = text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec ")?.parse::<f64>().ok());
        all += micros.context("cpu.stat without usage_usec")? / 1e6;
    }
    let mut pids: Vec<u32> = site.sidecars.iter().map(|process| process.pid()).collect();
    for agent in &mut site.agents {
        let pid = agent.process().pid();
        pids.extend([pid, envoy_of(pid)?]);
    }
    let of = |pid: &u32| Ok(Usage::of(*pid)?.cpu_seconds);
    let proxies = pids.iter().map(of).sum::<Result<f64>>()?;
    Ok((all, proxies))
}
