//! The page of a benchmark that is a folder of its own: results.json, README.md and plots.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{Table, presets};
use serde::Serialize;

/// What such a page says.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    /// What made the results, and what makes them anew.
    pub(crate) command: &'a str,
    pub(crate) target: &'a str,
    pub(crate) date: &'a str,
    pub(crate) machine: &'a [String],
    /// Titles and files of the plots, which are in the folder.
    pub(crate) plots: Vec<(String, String)>,
    pub(crate) tables: Vec<(String, Table)>,
    /// How it was measured.
    pub(crate) method: &'a str,
}

impl Page<'_> {
    /// Writes it and its results into the folder.
    pub(crate) fn write(self, out: &Path, results: &impl Serialize) -> Result<()> {
        let path = out.join("results.json");
        let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        serde_json::to_writer(file, results).context("writing the results")?;
        let (title, command, date) = (self.title, self.command, self.date);
        let mut page =
            format!("# {title}\n\nMade by\n\n    {command}\n\non {date}, on a machine with\n\n");
        for fact in self.machine {
            let _ = writeln!(page, "- {fact}");
        }
        let target = self.target;
        let _ = writeln!(
            page,
            "\n`make {target}` makes it anew; the numbers are in `results.json`.\n"
        );
        for (title, file) in self.plots {
            let _ = writeln!(page, "![{title}]({file})\n");
        }
        for (title, mut table) in self.tables {
            table.load_style(presets::ASCII_MARKDOWN);
            let _ = writeln!(page, "## {title}\n\n{table}\n");
        }
        let path = out.join("README.md");
        fs::write(&path, page + self.method).with_context(|| format!("writing {}", path.display()))
    }
}

/// All tables, for a terminal.
pub(crate) fn terminal(tables: Vec<(String, Table)>) -> String {
    let mut text = String::new();
    for (title, mut table) in tables {
        table.load_style(presets::UTF8_BORDERS_ONLY);
        let _ = writeln!(text, "\n{title}\n{table}");
    }
    text
}
