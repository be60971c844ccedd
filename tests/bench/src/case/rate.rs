//! Rates: new connections, and requests over open ones. All lanes take turns in
//! short slices, and each round begins with another lane, so that whatever else
//! the machine does falls on all of them alike.

use anyhow::{Result, bail};

use super::Contestant;
use crate::interrupt;
use crate::load::{Connections, Job, Outcome, Requests, Targets};
use crate::peer::Kind;
use crate::plan::{CLIENTS, FAR, NEAR, Plan};
use crate::results::{Lane, Measure, Rates, Round};
use crate::site::SERVER_THREADS;

/// Name of the case about new connections.
pub const CONNECTIONS: &str = "new connections";
/// Parallel connections of the client in [`connections`].
const CHURN_THREADS: usize = 8;
/// Length of the slice that is thrown away before the first round, milliseconds.
const WARM_UP_MS: u64 = 100;

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Rounds.
    pub rounds: u32,
    /// Length of one lane's turn, milliseconds.
    pub slice_ms: u64,
}

/// New connections per second, half of them to the same node.
pub fn connections(peers: &mut [Contestant], plan: &Plan, load: Load) -> Result<Rates> {
    let lanes = lanes(peers, false);
    let job = |service: bool, millis: u64| {
        Job::Connections(Connections {
            targets: if service {
                plan.through_services()
            } else {
                plan.direct(true, true)
            },
            sources: CLIENTS,
            threads: CHURN_THREADS,
            millis,
        })
    };
    let lanes = take_turns(peers, lanes, load, job)?;
    Ok(Rates {
        case: CONNECTIONS.into(),
        measure: Measure::Rate,
        lanes,
    })
}

/// Requests per second over connections that are open already, to backends on the
/// same node and on the other: one at a time, which is latency, and sixteen at a time.
///
/// Both ends of a connection stay on one core: whether a wake-up crosses cores is luck,
/// and would else decide a whole turn.
pub fn requests(peers: &mut [Contestant], plan: &Plan, load: Load) -> Result<Vec<Rates>> {
    let mut all = Vec::new();
    for (place, near) in [("same node", true), ("other node", false)] {
        for (threads, cores) in [(1, 1), (16, SERVER_THREADS)] {
            let direct: Targets = plan.direct(near, !near);
            let job = |service: bool, millis: u64| {
                Job::Requests(Requests {
                    targets: if service {
                        plan.through_services()
                    } else {
                        direct.clone()
                    },
                    backends: if near { NEAR } else { FAR },
                    threads,
                    cores,
                    millis,
                })
            };
            let lanes = take_turns(peers, lanes(peers, true), load, job)?;
            let case = format!("requests, {place}, {threads} at a time");
            let measure = if threads == 1 {
                Measure::Latency
            } else {
                Measure::Rate
            };
            all.push(Rates {
                case,
                measure,
                lanes,
            });
        }
    }
    Ok(all)
}

/// No mesh first; each other peer through its services; and, if wanted, Weft's site
/// to pod addresses as well, which tells what it costs those who do not use it.
fn lanes(peers: &[Contestant], pod_address: bool) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for peer in peers {
        let mut lane = |service| {
            lanes.push(Lane {
                peer: peer.kind,
                service,
                variant: None,
                rounds: Vec::new(),
            })
        };
        lane(peer.kind != Kind::Direct);
        if pod_address && peer.kind == Kind::Weft {
            lane(false);
        }
    }
    lanes
}

fn take_turns(
    peers: &mut [Contestant],
    mut lanes: Vec<Lane>,
    load: Load,
    job: impl Fn(bool, u64) -> Job,
) -> Result<Vec<Lane>> {
    let count = lanes.len();
    for lane in &lanes {
        measure(peers, lane, &job(lane.service, WARM_UP_MS))?;
    }
    for round in 0..load.rounds as usize {
        for turn in 0..count {
            interrupt::check()?;
            let lane = &mut lanes[(turn + round) % count];
            let result = measure(peers, lane, &job(lane.service, load.slice_ms))?;
            lane.rounds.push(result);
        }
    }
    Ok(lanes)
}

fn measure(peers: &mut [Contestant], lane: &Lane, job: &Job) -> Result<Round> {
    let Some(peer) = peers.iter_mut().find(|peer| peer.kind == lane.peer) else {
        bail!("{} is not there", lane.title());
    };
    match peer.site.client.run(job)? {
        Outcome::Rate {
            per_second,
            latency,
            failed,
        } => Ok(Round {
            per_second,
            latency,
            failed,
        }),
        other => bail!("the load client answered {other:?}"),
    }
}
