//! What policy costs pods: the same load between the same pods, without a mesh and
//! under more and more policies.

mod manifests;
mod site;

use std::path::PathBuf;

use anyhow::Result;
use weft_lab::Lab;

use crate::interrupt;
use crate::load::{Connections, Job, Outcome, Range, Requests, Targets};
use crate::peer::Kind;
use crate::plan::PORT;
use crate::results::{Lane, Measure, Rates, Round};
use crate::site::SERVER_THREADS;
use site::Site;

/// Parallel connections of the client.
const CHURN_THREADS: usize = 8;
/// Length of the turn that is thrown away before the first round, milliseconds.
const WARM_UP_MS: u64 = 200;

/// How many of the near node's pods there are, and how many policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// Pods, besides those that carry the load.
    pub pods: u8,
    /// Policies; those that select the pods of the load are among them.
    pub policies: u32,
}

/// Each is one lane, after the one without a mesh.
const CROWDS: [Crowd; 3] = [
    Crowd {
        pods: 0,
        policies: 1,
    },
    Crowd {
        pods: 118,
        policies: 120,
    },
    Crowd {
        pods: 118,
        policies: 1_000,
    },
];

/// How long and how often.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `weft` program.
    pub weft: PathBuf,
    /// Rounds.
    pub rounds: u32,
    /// Length of one turn, milliseconds.
    pub slice_ms: u64,
    /// Only cases with this in their names.
    pub cases: String,
    /// Only so many crowds.
    pub crowds: usize,
}

/// Measures new connections and requests between pods.
pub fn run(settings: &Settings) -> Result<Vec<Rates>> {
    let crowds = || CROWDS.into_iter().take(settings.crowds);
    let mut lab = Site::describe(Lab::builder(), None);
    for crowd in crowds() {
        lab = Site::describe(lab, Some(crowd));
    }
    eprintln!("bench: policies: nodes and pods");
    let lab = lab.build()?;
    let mut sites = vec![Site::start(&lab, None, settings)?];
    for crowd in crowds() {
        eprintln!("bench: policies: start of {}", title(crowd));
        sites.push(Site::start(&lab, Some(crowd), settings)?);
    }
    let mut all = Vec::new();
    let wanted = |(case, ..): &(&str, Measure, Load)| case.contains(&settings.cases);
    for (case, measure, load) in CASES.into_iter().filter(wanted) {
        eprintln!("bench: policies: {case}");
        all.push(Rates {
            case: case.into(),
            measure,
            lanes: take_turns(&mut sites, settings, load)?,
        });
    }
    Ok(all)
}

/// As in tables.
fn title(crowd: Crowd) -> String {
    let Crowd { pods, policies } = crowd;
    // Client and server.
    let pods = u32::from(pods) + 2;
    format!("{pods} pods, {policies} policies")
}

/// One turn of a case: what the client of a site is to do, for so many milliseconds.
type Load = fn(&Site, u64) -> Job;

const CASES: [(&str, Measure, Load); 5] = [
    (
        "new connections, same node",
        Measure::Rate,
        |site, millis| connections(site, site.near, millis),
    ),
    (
        "new connections, other node",
        Measure::Rate,
        |site, millis| connections(site, site.far, millis),
    ),
    (
        "requests, same node, 1 at a time",
        Measure::Latency,
        |site, millis| requests(site.near, 1, 1, millis),
    ),
    (
        "requests, other node, 1 at a time",
        Measure::Latency,
        |site, millis| requests(site.far, 1, 1, millis),
    ),
    (
        "requests, other node, 16 at a time",
        Measure::Rate,
        |site, millis| requests(site.far, 16, SERVER_THREADS, millis),
    ),
];

fn targets(server: Range) -> Targets {
    Targets {
        ranges: vec![server],
        port: PORT,
    }
}

fn connections(site: &Site, server: Range, millis: u64) -> Job {
    Job::Connections(Connections {
        targets: targets(server),
        sources: site.source,
        threads: CHURN_THREADS,
        millis,
    })
}

fn requests(server: Range, threads: usize, cores: u8, millis: u64) -> Job {
    Job::Requests(Requests {
        targets: targets(server),
        backends: server,
        threads,
        cores,
        millis,
    })
}

/// Each round begins with another lane, as in [`crate::case`].
fn take_turns(sites: &mut [Site], settings: &Settings, load: Load) -> Result<Vec<Lane>> {
    let mut lanes: Vec<Lane> = sites.iter().map(|site| lane(site.crowd)).collect();
    for site in sites.iter_mut() {
        turn(site, load, WARM_UP_MS)?;
    }
    for round in 0..settings.rounds as usize {
        for place in 0..lanes.len() {
            interrupt::check()?;
            let index = (place + round) % lanes.len();
            if let (Some(site), Some(lane)) = (sites.get_mut(index), lanes.get_mut(index)) {
                lane.rounds.push(turn(site, load, settings.slice_ms)?);
            }
        }
    }
    Ok(lanes)
}

fn lane(crowd: Option<Crowd>) -> Lane {
    Lane {
        peer: crowd.map_or(Kind::Direct, |_| Kind::Weft),
        service: false,
        variant: crowd.map(title),
        rounds: Vec::new(),
    }
}

fn turn(site: &mut Site, load: Load, millis: u64) -> Result<Round> {
    let job = load(site, millis);
    match site.client.run(&job)? {
        Outcome::Rate {
            per_second,
            latency,
            failed,
        } => Ok(Round {
            per_second,
            latency,
            failed,
        }),
        other => anyhow::bail!("the load client answered {other:?}"),
    }
}
