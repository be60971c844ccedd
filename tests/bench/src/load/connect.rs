//! New connections: connect, one request, one answer, close.

use std::time::Instant;

use anyhow::{Context, Result};

use super::client::Tally;
use super::job::Connections;
use super::wire;

/// Opens one connection after the other until `until`.
pub(super) fn churn(job: &Connections, until: Instant) -> Result<Tally> {
    let mut tally = Tally::new()?;
    let mut random = fastrand::Rng::new();
    let mut began = Instant::now();
    while began < until {
        let to = job
            .targets
            .pick(&mut random)
            .context("a job needs targets")?;
        let source = job.sources.pick(&mut random);
        let done = wire::connect(to, Some(source), wire::PATIENCE)
            .and_then(|mut c| wire::exchange(&mut c));
        let now = Instant::now();
        match done {
            Ok(_) => tally
                .samples
                .saturating_record((now - began).as_nanos() as u64),
            Err(_) => tally.failed += 1,
        }
        began = now;
    }
    Ok(tally)
}
