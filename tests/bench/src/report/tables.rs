//! The tables of a report.

use comfy_table::{CellAlignment, Table as Grid, presets};

use crate::peer::Kind;
use crate::results::{Change, Lane, Rates, Results, Round, Stage, Sync};
use crate::stats::{Spread, quantile};

/// A table with a title.
pub(super) struct Table {
    /// What it is about.
    pub(super) title: &'static str,
    grid: Grid,
}

impl Table {
    /// `words` columns of text come first; the rest are numbers.
    fn new(title: &'static str, header: &[&str], words: usize, rows: Vec<Vec<String>>) -> Self {
        let mut grid = Grid::new();
        grid.set_header(header.to_vec()).add_rows(rows);
        for column in grid.column_iter_mut().skip(words) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        Self { title, grid }
    }

    /// With lines around it.
    pub(super) fn terminal(&self) -> String {
        let mut grid = self.grid.clone();
        grid.load_style(presets::UTF8_BORDERS_ONLY);
        grid.to_string()
    }

    /// As Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut grid = self.grid.clone();
        grid.load_style(presets::ASCII_MARKDOWN);
        grid.to_string()
    }
}

/// All of them; without the empty ones.
pub(super) fn all(results: &Results) -> Vec<Table> {
    let tables = [
        rates(results),
        against(results),
        syncs(results),
        changes(results),
        policies(results),
    ];
    tables
        .into_iter()
        .filter(|table| !table.grid.is_empty())
        .collect()
}

/// A plan as `500 x 50`.
pub(super) fn size(stage: &Stage) -> String {
    format!("{} x {}", stage.plan.services, stage.plan.endpoints)
}

fn rates(results: &Results) -> Table {
    let mut rows = Vec::new();
    for stage in &results.stages {
        for rates in &stage.rates {
            for lane in &rates.lanes {
                let row = rate_row(rates, lane);
                rows.push([size(stage)].into_iter().chain(row).collect());
            }
        }
    }
    let header: Vec<&str> = ["services x endpoints"]
        .into_iter()
        .chain(RATE_HEADER)
        .collect();
    Table::new("Rates: medians of all rounds", &header, 3, rows)
}

/// What policies cost pods.
fn policies(results: &Results) -> Table {
    let lanes = results
        .policies
        .iter()
        .flat_map(|rates| rates.lanes.iter().map(move |lane| rate_row(rates, lane)));
    let title = "Pods under policies: medians of all rounds";
    Table::new(title, &RATE_HEADER, 2, lanes.collect())
}

const RATE_HEADER: [&str; 9] = [
    "case",
    "path",
    "per second",
    "p50 us",
    "p99 us",
    "ratio of",
    "to no mesh",
    "min .. max",
    "failed",
];

fn rate_row(rates: &Rates, lane: &Lane) -> Vec<String> {
    let median = |field: fn(&Round) -> f64| Spread::of(lane.rounds.iter().map(field));
    let number = |value: Option<Spread>, digits: usize| {
        value.map_or_else(dash, |spread| format!("{:.digits$}", spread.median))
    };
    let ratio = rates.ratio_to_first(lane);
    let failed: u64 = lane.rounds.iter().map(|round| round.failed).sum();
    vec![
        rates.case.clone(),
        lane.title(),
        number(median(|round| round.per_second), 0),
        number(median(|round| round.latency.p50_us), 1),
        number(median(|round| round.latency.p99_us), 1),
        rates.measure.title().to_owned(),
        number(ratio, 3),
        ratio.map_or_else(dash, range),
        failed.to_string(),
    ]
}

/// Weft's figure over each kube-proxy's, in the same rounds.
fn against(results: &Results) -> Table {
    let mut rows = Vec::new();
    for stage in &results.stages {
        for rates in &stage.rates {
            let through = |kind| rates.lanes.iter().find(|l| l.peer == kind && l.service);
            let Some(weft) = through(Kind::Weft) else {
                continue;
            };
            for kind in [Kind::Iptables, Kind::Nftables] {
                let Some(ratio) = through(kind).and_then(|lane| rates.ratio(weft, lane)) else {
                    continue;
                };
                let median = format!("{:.2}", ratio.median);
                let against = kind.title().to_owned();
                rows.push(vec![
                    size(stage),
                    rates.case.clone(),
                    against,
                    median,
                    range(ratio),
                ]);
            }
        }
    }
    let header = [
        "services x endpoints",
        "case",
        "against",
        "ratio",
        "min .. max",
    ];
    Table::new("Weft over kube-proxy", &header, 3, rows)
}

fn syncs(results: &Results) -> Table {
    let stages = results.stages.iter();
    let rows = stages.flat_map(|stage| stage.syncs.iter().map(|sync| sync_row(stage, sync)));
    let header = [
        "services x endpoints",
        "peer",
        "first connection s",
        "ready s",
        "RSS MiB",
        "peak RSS MiB",
        "CPU s",
    ];
    Table::new(
        "Full sync: from process start on an empty node",
        &header,
        2,
        rows.collect(),
    )
}

fn sync_row(stage: &Stage, sync: &Sync) -> Vec<String> {
    let seconds = |value: f64| format!("{value:.2}");
    vec![
        size(stage),
        sync.peer.title().to_owned(),
        sync.connected_seconds
            .map_or_else(|| format!("> {:.0}", sync.bound_seconds), seconds),
        sync.ready_seconds.map_or_else(dash, seconds),
        format!("{:.0}", sync.usage.rss_mib),
        format!("{:.0}", sync.usage.peak_mib),
        seconds(sync.usage.cpu_seconds),
    ]
}

fn changes(results: &Results) -> Table {
    let stages = results.stages.iter();
    let rows = stages.flat_map(|stage| stage.changes.iter().map(|c| change_row(stage, c)));
    let header = [
        "services x endpoints",
        "peer",
        "changes",
        "p50 ms",
        "p99 ms",
        "write p50 ms",
        "in agent p50 ms",
        "in agent p99 ms",
        "CPU ms each",
        "lost",
    ];
    let title = "One endpoint's change: from the write at the source to a connection that lands";
    Table::new(title, &header, 2, rows.collect())
}

fn change_row(stage: &Stage, change: &Change) -> Vec<String> {
    let ms =
        |samples: &[f64], q| quantile(samples, q).map_or_else(dash, |value| format!("{value:.1}"));
    let bound = |value: Option<f64>| value.map_or_else(dash, |value| format!("<= {value:.2}"));
    vec![
        size(stage),
        change.peer.title().to_owned(),
        change.landed_ms.len().to_string(),
        ms(&change.landed_ms, 0.5),
        ms(&change.landed_ms, 0.99),
        ms(&change.write_ms, 0.5),
        bound(change.applied_ms.map(|(p50, _)| p50)),
        bound(change.applied_ms.map(|(_, p99)| p99)),
        format!("{:.1}", change.cpu_ms),
        change.lost.to_string(),
    ]
}

fn range(spread: Spread) -> String {
    format!("{:.3} .. {:.3}", spread.min, spread.max)
}

fn dash() -> String {
    "-".to_owned()
}
