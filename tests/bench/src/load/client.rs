//! The client process: jobs in, outcomes out.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;

use super::job::{Job, Latency, Outcome};
use super::{blocking, connect, landing, paced, polled, request};

/// Listens on the unix socket `socket`, and serves jobs to whoever connects first,
/// until that one hangs up. Prints `ready` once it listens.
pub fn run(socket: &Path) -> Result<()> {
    let listener =
        UnixListener::bind(socket).with_context(|| format!("listening on {}", socket.display()))?;
    println!("ready");
    let (mut bench, _) = listener.accept().context("waiting for the bench")?;
    let jobs = BufReader::new(bench.try_clone().context("sharing the socket")?);
    for line in jobs.lines() {
        let line = line.context("reading a job")?;
        let job: Job = serde_json::from_str(&line).context("a job is not valid")?;
        let outcome = perform(&job).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        let mut line = serde_json::to_vec(&outcome).context("writing an outcome")?;
        line.push(b'\n');
        bench.write_all(&line).context("sending an outcome")?;
    }
    Ok(())
}

fn perform(job: &Job) -> Result<Outcome> {
    match job {
        Job::Connections(job) => together(
            job.threads,
            job.millis,
            |_| Ok(()),
            |(), until| connect::churn(job, until),
        ),
        Job::Requests(job) => together(
            job.threads,
            job.millis,
            |index| request::open(job, index),
            |prepared, until| request::exchange(job, prepared, until),
        ),
        Job::Paced(job) => together(job.connections, job.millis, Ok, |index, until| {
            paced::pace(job, index, until)
        }),
        Job::Polled(job) => together(
            job.connections.clamp(1, usize::from(job.cores)),
            job.millis,
            |index| polled::open(job, index),
            |opened, until| polled::exchange(job, opened, until),
        ),
        Job::Blocking(job) => together(
            job.connections,
            job.millis,
            |index| blocking::open(job, index),
            |opened, until| blocking::exchange(job, opened, until),
        ),
        Job::Landing(job) => Ok(landing::wait(job)),
    }
}

/// What one thread saw.
pub(super) struct Tally {
    /// Duration of each completed operation, nanoseconds.
    pub(super) samples: Histogram<u32>,
    /// Operations that failed.
    pub(super) failed: u64,
}

impl Tally {
    /// Nothing seen yet; samples from 1 ns to one minute, at three digits.
    pub(super) fn new() -> Result<Self> {
        let samples = Histogram::new_with_bounds(1, 60_000_000_000, 3)?;
        Ok(Self { samples, failed: 0 })
    }
}

/// Runs `work` in `threads` threads for `millis` and adds up their tallies. No clock
/// runs before `prepare` is through in all of them.
fn together<T>(
    threads: usize,
    millis: u64,
    prepare: impl Fn(usize) -> Result<T> + Sync,
    work: impl Fn(T, Instant) -> Result<Tally> + Sync,
) -> Result<Outcome> {
    let start = Barrier::new(threads);
    let one = |index: usize| -> Result<(Tally, f64)> {
        let prepared = prepare(index);
        // Also after a failure: the others wait.
        start.wait();
        let prepared = prepared?;
        let began = Instant::now();
        let tally = work(prepared, began + Duration::from_millis(millis))?;
        Ok((tally, began.elapsed().as_secs_f64()))
    };
    let one = &one;
    let tallies = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|index| scope.spawn(move || one(index)))
            .collect();
        handles
            .into_iter()
            .map(|handle| {
                handle
                    .join()
                    .map_err(|_| anyhow!("a load thread panicked"))?
            })
            .collect::<Result<Vec<_>>>()
    })?;
    let mut total = Tally::new()?;
    let mut per_second = 0.0;
    for (tally, seconds) in tallies {
        per_second += tally.samples.len() as f64 / seconds;
        total
            .samples
            .add(&tally.samples)
            .context("adding up samples")?;
        total.failed += tally.failed;
    }
    Ok(Outcome::Rate {
        per_second,
        latency: latency(&total.samples),
        failed: total.failed,
    })
}

fn latency(samples: &Histogram<u32>) -> Latency {
    let at = |quantile| samples.value_at_quantile(quantile) as f64 / 1e3;
    Latency {
        p50_us: at(0.5),
        p99_us: at(0.99),
        p999_us: at(0.999),
    }
}
