//! Which plots a report has.

use std::path::Path;

use anyhow::Result;

use super::plot::{Plot, Point, Series};
use super::tables::size;
use crate::case::CONNECTIONS;
use crate::peer::Kind;
use crate::results::{Lane, Rates, Results, Stage};
use crate::stats::quantile;

const PROXIES: [Kind; 3] = [Kind::Weft, Kind::Iptables, Kind::Nftables];

/// Draws into `out`; returns (title, file name) of each plot.
pub(super) fn draw(results: &Results, out: &Path) -> Result<Vec<(String, String)>> {
    let plots = [
        ("connections.svg", connections(results)),
        ("requests.svg", requests(results)),
        ("sync.svg", sync(results)),
        ("change.svg", change(results)),
        ("memory.svg", memory(results)),
    ];
    let mut drawn = Vec::new();
    for (file, plot) in plots.into_iter().filter(|(_, plot)| !plot.is_empty()) {
        plot.write(&out.join(file))?;
        drawn.push((plot.title, file.to_owned()));
    }
    Ok(drawn)
}

/// A plot with a category for each size and a series for each proxy.
fn by_size(
    results: &Results,
    title: &str,
    y_label: &str,
    logarithmic: bool,
    point: impl Fn(&Stage, Kind) -> Option<Point>,
) -> Plot {
    let series = PROXIES.into_iter().map(|peer| Series {
        peer,
        title: peer.title().to_owned(),
        points: results
            .stages
            .iter()
            .map(|stage| point(stage, peer))
            .collect(),
    });
    Plot {
        title: title.to_owned(),
        y_label: y_label.to_owned(),
        categories: results.stages.iter().map(size).collect(),
        series: series
            .filter(|series| series.points.iter().any(Option::is_some))
            .collect(),
        logarithmic,
    }
}

fn connections(results: &Results) -> Plot {
    by_size(
        results,
        "New connections: median and quartiles, by services x endpoints",
        "ratio to no mesh",
        false,
        |stage, peer| ratio(stage.rates.iter().find(|r| r.case == CONNECTIONS)?, peer),
    )
}

/// At the first size that has them: a category for each case, and Weft's site to pod
/// addresses as well.
fn requests(results: &Results) -> Plot {
    let cases: Vec<&Rates> = results
        .stages
        .iter()
        .map(|stage| {
            stage
                .rates
                .iter()
                .filter(|r| r.case.starts_with("requests"))
                .collect()
        })
        .find(|cases: &Vec<_>| !cases.is_empty())
        .unwrap_or_default();
    let series = PROXIES.into_iter().map(|peer| Series {
        peer,
        title: peer.title().to_owned(),
        points: cases.iter().map(|rates| ratio(rates, peer)).collect(),
    });
    Plot {
        title: "Requests over open connections: median and quartiles".to_owned(),
        y_label: "ratio to no mesh".to_owned(),
        categories: cases
            .iter()
            .map(|rates| rates.case.trim_start_matches("requests, ").to_owned())
            .collect(),
        series: series
            .filter(|series| series.points.iter().any(Option::is_some))
            .collect(),
        logarithmic: false,
    }
}

fn sync(results: &Results) -> Plot {
    let title = "Full sync from start, by services x endpoints";
    by_size(results, title, "seconds", true, |stage, peer| {
        let sync = stage.syncs.iter().find(|sync| sync.peer == peer)?;
        sync.connected_seconds.map(alone)
    })
}

fn change(results: &Results) -> Plot {
    let title = "One endpoint's change, median to 99th percentile, by services x endpoints";
    by_size(results, title, "milliseconds", true, |stage, peer| {
        let change = stage.changes.iter().find(|change| change.peer == peer)?;
        let median = quantile(&change.landed_ms, 0.5)?;
        Some((median, median, quantile(&change.landed_ms, 0.99)?))
    })
}

fn memory(results: &Results) -> Plot {
    let title = "Resident memory after the full sync, by services x endpoints";
    by_size(results, title, "MiB", false, |stage, peer| {
        let sync = stage.syncs.iter().find(|sync| sync.peer == peer)?;
        sync.connected_seconds
            .is_some()
            .then(|| alone(sync.usage.rss_mib))
    })
}

fn alone(value: f64) -> Point {
    (value, value, value)
}

/// Median and quartiles.
fn ratio(rates: &Rates, peer: Kind) -> Option<Point> {
    let through = |lane: &&Lane| lane.peer == peer && lane.service;
    let spread = rates.ratio_to_first(rates.lanes.iter().find(through)?)?;
    Some((spread.lower, spread.median, spread.upper))
}
