//! Requests over an open connection.

use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::client::Tally;
use super::job::Requests;
use super::wire;

/// Connections tried before concluding that none of the wanted backends is behind
/// the service. With a quarter of the tries good, 200 misses in a row do not happen.
const TRIES: usize = 200;

/// What one thread works with.
pub(super) struct Prepared {
    stream: TcpStream,
    core: u8,
}

/// Binds thread `index` to its core and opens its connection.
pub(super) fn open(job: &Requests, index: usize) -> Result<Prepared> {
    let core = (index % usize::from(job.cores.max(1))) as u8;
    wire::bind_to_core(core.into()).context("binding a load thread to a core")?;
    Ok(Prepared {
        stream: land(job, core)?,
        core,
    })
}

/// Sends one request after the other until `until`.
pub(super) fn exchange(job: &Requests, prepared: Prepared, until: Instant) -> Result<Tally> {
    let Prepared { mut stream, core } = prepared;
    let mut tally = Tally::new()?;
    let mut began = Instant::now();
    while began < until {
        let done = wire::exchange(&mut stream);
        let now = Instant::now();
        match done {
            Ok(_) => tally
                .samples
                .saturating_record((now - began).as_nanos() as u64),
            Err(_) => {
                tally.failed += 1;
                stream = land(job, core)?;
            }
        }
        began = now;
    }
    Ok(tally)
}

/// A connection to one of the wanted backends, whose server thread is on `core`.
fn land(job: &Requests, core: u8) -> Result<TcpStream> {
    let mut random = fastrand::Rng::new();
    for _ in 0..TRIES {
        let to = job
            .targets
            .pick(&mut random)
            .context("a job needs targets")?;
        let mut stream = wire::connect(to, None, wire::PATIENCE)
            .with_context(|| format!("connecting to {to}"))?;
        let answer = wire::exchange(&mut stream).with_context(|| format!("asking {to}"))?;
        if job.backends.contains(answer.backend) && answer.thread == core {
            return Ok(stream);
        }
    }
    bail!(
        "{TRIES} connections and none landed on one of {:?}",
        job.backends
    )
}
