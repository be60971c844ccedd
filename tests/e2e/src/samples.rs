//! What an agent's `/metrics` says.

use anyhow::Context;
use weft_lab::Node;

use crate::Result;
use crate::wait::LONG;

/// Samples by name and labels.
#[derive(Debug)]
pub struct Samples(Vec<(String, f64)>);

/// Asks the agent of `node`, which serves its metrics where `weft up` does by default.
///
/// # Errors
/// When it does not answer, or what it says cannot be read.
pub fn scrape(node: &Node) -> Result<Samples> {
    let curl = node.command("curl");
    let curl = curl.args(["-sS", "http://127.0.0.1:15020/metrics"]);
    let text = curl.run(LONG)?.success()?.stdout;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').context("no sample")?;
        Ok((series.to_owned(), value.parse()?))
    });
    Ok(Samples(samples.collect::<Result<_>>()?))
}

impl Samples {
    /// Sum of the counters with this name and at least these labels.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let is_meant = |series: &str| {
            let (of, rest) = series.split_once('{').unwrap_or((series, ""));
            let has = |(key, value): &(&str, &str)| {
                let label = format!("{key}=\"{value}\"");
                rest.trim_end_matches('}').split(',').any(|l| l == label)
            };
            of == name && labels.iter().all(has)
        };
        let meant = self.0.iter().filter(|(series, _)| is_meant(series));
        meant.map(|(_, value)| *value as u64).sum()
    }
}
