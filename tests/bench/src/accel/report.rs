//! Tables and plots of a run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table};
use serde::{Deserialize, Serialize};

use super::measure::{Case, Lane, Load, Turn, bytes};
use super::site::Way;
use crate::machine;
use crate::peer::Kind;
use crate::report::page::{Page, terminal};
use crate::report::plot::{Plot, Series};
use crate::stats::Spread;

const METHOD: &str = include_str!("method.md");
const HEADER: [&str; 9] = [
    "what",
    "base",
    "lane",
    "rate",
    "quartiles",
    "p50",
    "p99",
    "CPU each",
    "past TCP",
];

/// Tables: whose ratios, and the title.
const COMPARED: [(Way, &str); 4] = [
    (Way::Accelerated, "Accelerated, to no mesh"),
    (Way::Eager, "Accelerated sockets that block, to no mesh"),
    (Way::Naive, "Redirection without any care, to no mesh"),
    (Way::OptedOut, "Opted out, to acceleration off"),
];

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Results {
    command: String,
    date: String,
    machine: Vec<String>,
    cases: Vec<Case>,
}

impl Results {
    pub(super) fn new(cases: Vec<Case>) -> Self {
        let mut command = vec!["tests/bench/run-accel".to_owned()];
        command.extend(machine::arguments(&["--out"]));
        Self {
            command: command.join(" "),
            date: machine::date(),
            machine: machine::describe(),
            cases,
        }
    }

    /// All tables, for a terminal.
    pub(super) fn terminal(&self) -> String {
        terminal(self.tables())
    }

    /// results.json, README.md and plots.
    pub(super) fn write(&self, out: &Path) -> Result<()> {
        fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
        let mut plots = Vec::new();
        for (file, plot) in self.plots() {
            if !plot.is_empty() {
                plot.write(&out.join(file))?;
                plots.push((plot.title.to_string(), file.to_string()));
            }
        }
        let page = Page {
            title: "Same-node acceleration and no mesh",
            command: &self.command,
            target: "bench-accel",
            date: &self.date,
            machine: &self.machine,
            plots,
            tables: self.tables(),
            method: METHOD,
        };
        page.write(out, self)
    }

    fn tables(&self) -> Vec<(String, Table)> {
        COMPARED
            .iter()
            .map(|(way, title)| (title.to_string(), self.table(*way)))
            .collect()
    }

    /// All cases in which this way took part.
    fn table(&self, way: Way) -> Table {
        let mut table = Table::new();
        let mut header = HEADER.map(str::to_owned);
        let rows = self
            .cases
            .iter()
            .filter_map(|case| Some((case, case.compared(way)?)));
        for (case, (base, lane)) in rows {
            for (place, lane) in [(1, base), (2, lane)] {
                header[place] = format!("{}, per second", lane.way.title());
            }
            table.add_row(case.row(base, lane));
        }
        table.set_header(header);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn plots(&self) -> [(&'static str, Plot); 3] {
        let exchange = |wanted: usize| {
            move |case: &Case| match case.load {
                Load::Exchange { size, connections } if connections == wanted => Some(bytes(size)),
                _ => None,
            }
        };
        let stream = |wanted: bool| {
            move |case: &Case| match case.load {
                Load::Stream { size, nodelay } if nodelay == wanted => Some(bytes(size)),
                _ => None,
            }
        };
        let y = |what: &str| format!("{what}, accelerated to no mesh");
        [
            (
                "latency.svg",
                self.plot(
                    "Message and answer: latency",
                    &y("time"),
                    vec![
                        ("p50, 1 connection", Kind::Weft, &exchange(1), |t| t.p50_us),
                        (
                            "p99, 1 connection",
                            Kind::WeftKubernetes,
                            &exchange(1),
                            |t| t.p99_us,
                        ),
                        ("p50, 16 connections", Kind::Iptables, &exchange(16), |t| {
                            t.p50_us
                        }),
                        (
                            "p50, 128 connections",
                            Kind::Nftables,
                            &exchange(128),
                            |t| t.p50_us,
                        ),
                    ],
                ),
            ),
            (
                "cpu.svg",
                self.plot(
                    "Message and answer: CPU time of both ends",
                    &y("CPU time"),
                    vec![
                        ("1 connection", Kind::Weft, &exchange(1), |t| t.cpu_us),
                        ("16 connections", Kind::Iptables, &exchange(16), |t| {
                            t.cpu_us
                        }),
                        ("128 connections", Kind::Nftables, &exchange(128), |t| {
                            t.cpu_us
                        }),
                    ],
                ),
            ),
            (
                "streams.svg",
                self.plot(
                    "Streams: throughput",
                    &y("bytes per second"),
                    vec![
                        ("without TCP_NODELAY", Kind::Weft, &stream(false), |t| {
                            t.per_second
                        }),
                        ("with TCP_NODELAY", Kind::Iptables, &stream(true), |t| {
                            t.per_second
                        }),
                    ],
                ),
            ),
        ]
    }

    fn plot(&self, title: &str, y_label: &str, wanted: Vec<Wanted<'_>>) -> Plot {
        let mut categories: Vec<String> = Vec::new();
        let mut series = Vec::new();
        for (title, color, category, field) in wanted {
            let mut points = Vec::new();
            for case in &self.cases {
                let (Some(name), Some((base, lane))) =
                    (category(case), case.compared(Way::Accelerated))
                else {
                    continue;
                };
                let place = categories.iter().position(|known| *known == name);
                let place = place.unwrap_or(categories.len());
                if place == categories.len() {
                    categories.push(name);
                }
                points.resize(points.len().max(place + 1), None);
                points[place] = lane
                    .ratio(base, field)
                    .map(|s| (s.lower, s.median, s.upper));
            }
            series.push(Series {
                peer: color,
                title: title.to_owned(),
                points,
            });
        }
        Plot {
            title: title.to_owned(),
            y_label: y_label.to_owned(),
            categories,
            series,
            logarithmic: false,
        }
    }
}

/// Title, colour, category of a case that belongs there, and what is compared.
type Wanted<'a> = (
    &'a str,
    Kind,
    &'a dyn Fn(&Case) -> Option<String>,
    fn(&Turn) -> f64,
);

impl Case {
    /// The lane that others are compared with, and this one.
    fn compared(&self, way: Way) -> Option<(&Lane, &Lane)> {
        let (base, others) = self.lanes.split_first()?;
        Some((base, others.iter().find(|lane| lane.way == way)?))
    }

    fn row(&self, base: &Lane, lane: &Lane) -> Vec<String> {
        let dash = || "-".to_owned();
        let rate = |lane: &Lane| {
            Spread::of(lane.turns.iter().map(|turn| turn.per_second))
                .map_or_else(dash, |s| format!("{:.0}", s.median))
        };
        let ratio = |field: fn(&Turn) -> f64| lane.ratio(base, field);
        let median =
            |spread: Option<Spread>| spread.map_or_else(dash, |s| format!("{:.3}", s.median));
        let timed = |field: fn(&Turn) -> f64| {
            let spread = if self.has_latency() {
                ratio(field)
            } else {
                None
            };
            spread.map_or_else(dash, |s| {
                format!("{:.2} ({:.2} .. {:.2})", s.median, s.lower, s.upper)
            })
        };
        let quartiles = ratio(|t| t.per_second)
            .map_or_else(dash, |s| format!("{:.3} .. {:.3}", s.lower, s.upper));
        vec![
            self.title(),
            rate(base),
            rate(lane),
            median(ratio(|t| t.per_second)),
            quartiles,
            timed(|t| t.p50_us),
            timed(|t| t.p99_us),
            median(ratio(|t| t.cpu_us)),
            format!("{} MB", lane.accelerated_bytes / 1_000_000),
        ]
    }
}
