//! Requests over open connections.

use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::client::Tally;
use super::job::Requests;
use super::wire;

/// Connections tried before concluding that none of the wanted backends is behind
/// the service. With half of the backends wanted, 200 misses in a row do not happen.
const TRIES: usize = 200;

/// Opens one thread's connections.
pub(super) fn open(job: &Requests) -> Result<Vec<TcpStream>> {
    (0..job.connections.max(1)).map(|_| land(job)).collect()
}

/// Sends one request after the other until `until`.
pub(super) fn exchange(
    job: &Requests,
    mut connections: Vec<TcpStream>,
    until: Instant,
) -> Result<Tally> {
    let mut tally = Tally::new()?;
    let mut began = Instant::now();
    loop {
        for connection in &mut connections {
            if began >= until {
                return Ok(tally);
            }
            let done = wire::exchange(connection);
            let now = Instant::now();
            match done {
                Ok(_) => tally
                    .samples
                    .saturating_record((now - began).as_nanos() as u64),
                Err(_) => {
                    tally.failed += 1;
                    *connection = land(job)?;
                }
            }
            began = now;
        }
    }
}

/// A connection to one of the wanted backends.
fn land(job: &Requests) -> Result<TcpStream> {
    let mut random = fastrand::Rng::new();
    for _ in 0..TRIES {
        let to = job
            .targets
            .pick(&mut random)
            .context("a job needs targets")?;
        let mut stream = wire::connect(to, None, wire::PATIENCE)
            .with_context(|| format!("connecting to {to}"))?;
        let backend = wire::exchange(&mut stream).with_context(|| format!("asking {to}"))?;
        if job.backends.contains(backend) {
            return Ok(stream);
        }
    }
    bail!(
        "{TRIES} connections and none landed on one of {:?}",
        job.backends
    )
}
