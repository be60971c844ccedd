//! What is shown of one service, workload, or pair of workloads.

use std::collections::BTreeMap;

use serde::Serialize;

use super::columns::Tab;
use crate::watch::{Between, Counts, Quantiles, Total, pairs, services};

/// One line, in rates a second.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) name: String,
    /// Connections opened to it.
    pub(super) opened: f64,
    /// Of workloads: connections that it opened.
    pub(super) out: f64,
    /// Open now.
    pub(super) open: u64,
    /// Sent by clients, by servers.
    pub(super) sent: f64,
    pub(super) received: f64,
    pub(super) rtt_us: Option<Times>,
    pub(super) lasted_us: Option<Times>,
    pub(super) denied: f64,
    pub(super) retransmits: f64,
    /// Refusals by reason, in all.
    pub(super) reasons: BTreeMap<String, u64>,
}

/// Median and 95th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Times {
    pub(super) p50: f64,
    pub(super) p95: f64,
}

/// All lines of a tab, in no order that matters.
pub(super) fn rows(between: &Between, tab: Tab) -> Vec<Row> {
    // Nothing was counted twice yet: there are no rates.
    let seconds = match between.seconds {
        seconds if seconds > 0.0 => seconds,
        _ => f64::INFINITY,
    };
    match tab {
        Tab::Services => services(between)
            .into_iter()
            .map(|(name, counts)| row(name, &counts, 0, seconds))
            .collect(),
        Tab::Workloads => Total::of_workloads(&pairs(between))
            .into_iter()
            .map(|(name, total)| row(name.to_string(), &total.counts, total.out, seconds))
            .collect(),
        Tab::Connections => pairs(between)
            .into_iter()
            .map(|pair| {
                let name = format!("{} > {}", pair.source, pair.destination);
                row(name, &pair.counts, 0, seconds)
            })
            .collect(),
    }
}

fn row(name: String, counts: &Counts, out: u64, seconds: f64) -> Row {
    let rate = |count: u64| count as f64 / seconds;
    let times = |places: &[u64]| {
        let found = Quantiles::of(places);
        found.map(|Quantiles { p50, p95 }| Times { p50, p95 })
    };
    Row {
        name,
        opened: rate(counts.opened),
        out: rate(out),
        open: counts.open,
        sent: rate(counts.bytes[0]),
        received: rate(counts.bytes[1]),
        rtt_us: times(&counts.rtt),
        lasted_us: times(&counts.duration),
        denied: rate(counts.denied.values().sum()),
        retransmits: rate(counts.retransmits),
        reasons: counts.denied.clone(),
    }
}
