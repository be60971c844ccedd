//! What a run found, as it is written to `results.json`.

use serde::{Deserialize, Serialize};

use crate::load::Latency;
use crate::peer::Kind;
use crate::plan::Plan;
use crate::stats::Spread;
use crate::usage::Usage;

/// One run of the bench.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// The command that made it.
    pub command: String,
    /// Date and time, UTC, ISO 8601.
    pub date: String,
    /// The machine: one line per fact.
    pub machine: Vec<String>,
    /// Length of each measurement of a rate, milliseconds.
    pub slice_ms: u64,
    /// One entry per size.
    pub stages: Vec<Stage>,
    /// What policies cost pods.
    #[serde(default)]
    pub policies: Vec<Rates>,
}

/// All figures at one size.
#[derive(Debug, Serialize, Deserialize)]
pub struct Stage {
    /// How many services of how many endpoints.
    pub plan: Plan,
    /// From start to all services in the kernel.
    pub syncs: Vec<Sync>,
    /// Rates, each the same work over different paths.
    pub rates: Vec<Rates>,
    /// From an endpoint's change to the kernel.
    pub changes: Vec<Change>,
}

/// One peer's full sync.
#[derive(Debug, Serialize, Deserialize)]
pub struct Sync {
    /// Which peer.
    pub peer: Kind,
    /// From process start to the first connection through the last service, seconds;
    /// `None`: not within `bound_seconds`.
    pub connected_seconds: Option<f64>,
    /// From process start until it said that it is ready, seconds, if it says so.
    pub ready_seconds: Option<f64>,
    /// When it was given up, seconds.
    pub bound_seconds: f64,
    /// Used from start to then.
    pub usage: Usage,
}

/// The same work over different paths, interleaved in rounds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rates {
    /// What was done.
    pub case: String,
    /// What a ratio compares.
    pub measure: Measure,
    /// The paths; the first is what the others are compared with.
    pub lanes: Vec<Lane>,
}

/// What a ratio compares. Either way more than 1 is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Operations per second.
    Rate,
    /// The inverse of the median time of one operation. Where only one is in flight
    /// and cores are idle, the mean would mostly tell what else the machine did.
    Latency,
}

impl Measure {
    /// The figure of one round.
    pub fn of(self, round: &Round) -> f64 {
        match self {
            Self::Rate => round.per_second,
            Self::Latency => 1e6 / round.latency.p50_us,
        }
    }

    /// As in tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Latency => "p50",
        }
    }
}

impl Rates {
    /// `lane`'s figure over `base`'s, round by round: what slows a whole round down,
    /// such as a busy machine, cancels out.
    pub fn ratio(&self, lane: &Lane, base: &Lane) -> Option<Spread> {
        let rounds = lane.rounds.iter().zip(&base.rounds);
        let ratios = rounds.map(|(lane, base)| self.measure.of(lane) / self.measure.of(base));
        Spread::of(ratios.filter(|ratio| ratio.is_finite()))
    }

    /// `lane`'s figure over that of the first lane.
    pub fn ratio_to_first(&self, lane: &Lane) -> Option<Spread> {
        self.ratio(lane, self.lanes.first()?)
    }
}

/// One path of a comparison.
#[derive(Debug, Serialize, Deserialize)]
pub struct Lane {
    /// Which peer's site.
    pub peer: Kind,
    /// Through the service address; else to the backend's own.
    pub service: bool,
    /// What else tells it from others of the same peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// One entry per round.
    pub rounds: Vec<Round>,
}

impl Lane {
    /// As in tables.
    pub fn title(&self) -> String {
        if let Some(variant) = &self.variant {
            return format!("{}, {variant}", self.peer.title());
        }
        match (self.peer, self.service) {
            (Kind::Direct, _) => self.peer.title().to_owned(),
            (peer, true) => format!("{}, service", peer.title()),
            (peer, false) => format!("{}, pod address", peer.title()),
        }
    }
}

/// One lane in one round.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Round {
    /// Completed operations per second.
    pub per_second: f64,
    /// Of one operation.
    pub latency: Latency,
    /// Operations that failed.
    pub failed: u64,
}

/// One peer's delay from a change of an EndpointSlice to the kernel.
#[derive(Debug, Serialize, Deserialize)]
pub struct Change {
    /// Which peer.
    pub peer: Kind,
    /// From before the write at the source (API server, manifest folder) to an
    /// established connection to the new backend, milliseconds, one per change.
    pub landed_ms: Vec<f64>,
    /// The write's own share of that, milliseconds, one per change.
    pub write_ms: Vec<f64>,
    /// Changes that did not show within the time allowed.
    pub lost: u32,
    /// CPU time of the peer's process on the node, per change, milliseconds.
    pub cpu_ms: f64,
    /// Upper bounds of median and 99th percentile of the time inside the agent,
    /// from an update's arrival to its being in the kernel, milliseconds.
    pub applied_ms: Option<(f64, f64)>,
}
