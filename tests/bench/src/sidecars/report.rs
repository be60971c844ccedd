//! Tables and plots of a run.

mod plot;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table};
use serde::{Deserialize, Serialize};

use super::Options;
use super::family::Family;
use super::measure::{Case, Lane, Turn};
use super::memory::Memory;
use crate::machine;
use crate::report::page::{Page, terminal};
use crate::stats::Spread;

const METHOD: &str = include_str!("method.md");

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Results {
    command: String,
    date: String,
    machine: Vec<String>,
    connections: u32,
    cases: Vec<Case>,
    memory: Option<Memory>,
}

impl Results {
    pub(super) fn new(options: &Options, cases: Vec<Case>, memory: Option<Memory>) -> Self {
        let mut command = vec!["tests/bench/run-sidecars".to_owned()];
        command.extend(machine::arguments(&["--out", "--envoy"]));
        Self {
            command: command.join(" "),
            date: machine::date(),
            machine: machine::describe(),
            connections: options.connections,
            cases,
            memory,
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
        for case in &self.cases {
            let (title, file) = (case.title(self.connections), format!("{}.svg", case.slug()));
            plot::draw(case, &title, &out.join(&file))?;
            plots.push((title, file));
        }
        let page = Page {
            title: "Requests: Weft and sidecars",
            command: &self.command,
            target: "bench",
            date: &self.date,
            machine: &self.machine,
            plots,
            tables: self.tables(),
            method: METHOD,
        };
        page.write(out, self)
    }

    fn tables(&self) -> Vec<(String, Table)> {
        let cases = self
            .cases
            .iter()
            .map(|case| (case.title(self.connections), case.table()));
        let memory = self.memory.iter().map(|memory| {
            (
                "Memory for the pods of one node".to_owned(),
                memory_table(memory),
            )
        });
        cases.chain(memory).collect()
    }
}

impl Case {
    fn slug(&self) -> String {
        match (self.rate, self.far) {
            (Some(rate), _) => format!("rate-{rate}"),
            (None, false) => "near".to_owned(),
            (None, true) => "far".to_owned(),
        }
    }

    fn title(&self, connections: u32) -> String {
        let place = if self.far {
            "between two nodes"
        } else {
            "on one node"
        };
        match self.rate {
            None => format!("As many requests as {connections} connections carry, {place}"),
            Some(rate) => format!("{rate} requests per second, {place}"),
        }
    }

    /// The lane that others are compared with: the pair with mTLS where the others have it, too.
    pub(super) fn base(&self) -> Option<&Lane> {
        let base = if self.far {
            Family::SidecarsMtls
        } else {
            Family::Sidecars
        };
        self.lanes.iter().find(|lane| lane.family == base)
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        let pair = if self.far { "pair, mTLS" } else { "pair" };
        table.set_header([
            "path".to_owned(),
            "per second".to_owned(),
            "p50 us".to_owned(),
            "p99 us".to_owned(),
            "p99.9 us".to_owned(),
            format!("rate to {pair}"),
            "min .. max".to_owned(),
            "p50 to it".to_owned(),
            "p99 to it".to_owned(),
            "CPU us each".to_owned(),
            "of it proxies".to_owned(),
            "failed".to_owned(),
        ]);
        for lane in &self.lanes {
            table.add_row(self.row(lane));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn row(&self, lane: &Lane) -> Vec<String> {
        let of = |field: fn(&Turn) -> f64, digits: usize| {
            Spread::of(lane.turns.iter().map(field))
                .map_or_else(dash, |s| format!("{:.digits$}", s.median))
        };
        let late = Spread::of(lane.turns.iter().filter_map(|turn| turn.p999_us));
        let ratio = |field: fn(&Turn) -> f64| self.base().and_then(|base| lane.ratio(base, field));
        let rate = ratio(|turn| turn.per_second);
        let median =
            |spread: Option<Spread>| spread.map_or_else(dash, |s| format!("{:.2}", s.median));
        vec![
            lane.family.title(self.far).to_owned(),
            of(|turn| turn.per_second, 0),
            of(|turn| turn.p50_us, 0),
            of(|turn| turn.p99_us, 0),
            late.map_or_else(dash, |spread| format!("{:.0}", spread.median)),
            median(rate),
            rate.map_or_else(dash, |s| format!("{:.2} .. {:.2}", s.min, s.max)),
            median(ratio(|turn| turn.p50_us)),
            median(ratio(|turn| turn.p99_us)),
            of(|turn| turn.cpu_us, 0),
            of(|turn| turn.proxies_us, 0),
            lane.turns
                .iter()
                .map(|turn| turn.failed)
                .sum::<u64>()
                .to_string(),
        ]
    }
}

impl Lane {
    /// To another lane, round by round.
    pub(super) fn ratio(&self, base: &Self, field: fn(&Turn) -> f64) -> Option<Spread> {
        let pairs = self.turns.iter().zip(&base.turns);
        Spread::of(
            pairs
                .map(|(own, base)| field(own) / field(base))
                .filter(|ratio| ratio.is_finite()),
        )
    }
}

fn memory_table(memory: &Memory) -> Table {
    let mut table = Table::new();
    table.set_header([
        "what",
        "MiB",
        "to sidecars that know one",
        "to sidecars that know all",
    ]);
    let pods = memory.pods;
    let rows = [
        (
            format!("{pods} sidecars, each knows one service"),
            memory.sidecars,
        ),
        (
            format!("{pods} sidecars, each knows all services"),
            memory.full_sidecars,
        ),
        (format!("Weft for {pods} pods, in all"), memory.weft()),
        ("- Envoy".to_owned(), memory.envoy),
        ("- agent".to_owned(), memory.agent),
        ("- maps in the kernel".to_owned(), memory.maps),
    ];
    for (what, mib) in rows {
        let to = |all: f64| format!("{:.3}", mib / all);
        table.add_row([
            what,
            format!("{mib:.0}"),
            to(memory.sidecars),
            to(memory.full_sidecars),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn dash() -> String {
    "-".to_owned()
}
