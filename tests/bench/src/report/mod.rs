//! Results as tables for people (terminal and Markdown), as JSON, and as plots.

mod markdown;
pub(crate) mod page;
pub(crate) mod plot;
mod plots;
mod tables;

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};

use crate::results::Results;

const JSON: &str = "results.json";
const README: &str = "README.md";

/// Writes results.json, README.md and the plots into `out`.
pub fn write(results: &Results, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let path = out.join(JSON);
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    serde_json::to_writer(file, results).context("writing the results")?;
    let plots = plots::draw(results, out)?;
    let path = out.join(README);
    fs::write(&path, markdown::page(results, &plots))
        .with_context(|| format!("writing {}", path.display()))
}

/// Reads what [`write()`] wrote.
pub fn read(out: &Path) -> Result<Results> {
    let path = out.join(JSON);
    let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    serde_json::from_reader(file).with_context(|| format!("{} is not valid", path.display()))
}

/// The tables, for a terminal.
pub fn terminal(results: &Results) -> String {
    let tables = tables::all(results).into_iter();
    tables
        .map(|table| format!("\n{}\n{}", table.title, table.terminal()))
        .collect()
}
