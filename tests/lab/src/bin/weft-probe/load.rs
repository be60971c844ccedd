//! A load of requests from several workers, and its sum.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use weft_lab::probe::{Attempt, Landing, Summary, monotonic_ns};

use crate::session::{Kind, Session, Target, attempt};

/// Failures of each worker that are told as they happen.
const TOLD: u64 = 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Server, e.g. 10.96.0.1:80 or [fd00:96::1]:80
    #[arg(value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// UDP instead of TCP
    #[arg(long)]
    udp: bool,
    /// UDP: connect the socket instead of naming the server with each datagram
    #[arg(long, requires = "udp")]
    connected: bool,
    /// Requests over open connections, instead of a new one for each
    #[arg(long)]
    keep: bool,
    /// Workers, each with one request at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4096))]
    concurrency: u32,
    /// How long, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    duration: u64,
    /// Requests a second over all workers; 0: as many as go
    #[arg(long, default_value_t = 0)]
    rate: u32,
    /// Longest wait for one connect or answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    timeout: u64,
    /// Write one line of JSON for each request: begin and end (CLOCK_MONOTONIC, nanoseconds), server or error
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// What one worker saw.
#[derive(Default)]
struct Tally {
    summary: Summary,
    latencies_us: Vec<u64>,
    landings: Vec<Landing>,
}

/// What every worker is told.
#[derive(Clone, Copy)]
struct Plan {
    target: Target,
    keep: bool,
    with_log: bool,
    start: Instant,
    end: Instant,
    /// Time between two requests of one worker.
    interval: Duration,
}

pub(crate) fn run(args: Args) -> io::Result<()> {
    let start = Instant::now();
    let plan = Plan {
        target: Target {
            to: args.to,
            kind: Kind::new(args.udp, args.connected),
            timeout: Duration::from_millis(args.timeout),
            size: 0,
            from_port: 0,
        },
        keep: args.keep,
        with_log: args.log.is_some(),
        start,
        end: start + Duration::from_millis(args.duration),
        interval: match args.rate {
            0 => Duration::ZERO,
            rate => Duration::from_secs(1) * args.concurrency / rate,
        },
    };
    let workers: Vec<_> = (0..args.concurrency)
        .map(|worker| {
            let first = start + plan.interval * worker / args.concurrency;
            thread::spawn(move || work(plan, first))
        })
        .collect();
    let mut sum = Tally::default();
    for worker in workers {
        let tally = worker
            .join()
            .map_err(|_| io::Error::other("a worker has died"))?;
        sum.add(tally);
    }
    let mut summary = sum.finish();
    summary.elapsed_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    if let Some(path) = args.log {
        write_log(File::create(path)?, &mut sum.landings)?;
    }
    println!("{}", serde_json::to_string(&summary)?);
    Ok(())
}

fn work(plan: Plan, mut next: Instant) -> Tally {
    let mut tally = Tally::default();
    let mut session: Option<Session> = None;
    loop {
        // A worker that falls behind makes up for it, so that the rate holds over the whole run.
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += plan.interval;
        if Instant::now() >= plan.end {
            return tally;
        }
        tally.summary.connects += u64::from(session.is_none());
        let begin_ns = monotonic_ns();
        let attempt = attempt(&mut session, plan.target);
        if plan.with_log {
            tally.landings.push(Landing {
                begin_ns,
                end_ns: monotonic_ns(),
                server: attempt.server.clone(),
                errno: attempt.errno.clone(),
            });
        }
        if tally.summary.failed < TOLD && attempt.errno.is_some() {
            let seconds = plan.start.elapsed().as_secs_f64();
            eprintln!("after {seconds:.3} s: {attempt:?}");
        }
        tally.count(&attempt);
        if !plan.keep
            && let Some(session) = session.take()
        {
            session.abort();
        }
    }
}

impl Tally {
    fn count(&mut self, attempt: &Attempt) {
        self.summary.requests += 1;
        match (&attempt.server, &attempt.errno) {
            (Some(server), None) => {
                *self.summary.by_server.entry(server.clone()).or_default() += 1;
                self.latencies_us.push(attempt.elapsed_us);
            }
            (_, errno) => {
                self.summary.failed += 1;
                let name = errno.clone().unwrap_or_default();
                *self.summary.errors.entry(name).or_default() += 1;
            }
        }
    }

    fn add(&mut self, other: Self) {
        let sum = &mut self.summary;
        sum.requests += other.summary.requests;
        sum.failed += other.summary.failed;
        sum.connects += other.summary.connects;
        for (name, count) in other.summary.errors {
            *sum.errors.entry(name).or_default() += count;
        }
        for (name, count) in other.summary.by_server {
            *sum.by_server.entry(name).or_default() += count;
        }
        self.latencies_us.extend(other.latencies_us);
        self.landings.extend(other.landings);
    }

    fn finish(&mut self) -> Summary {
        self.latencies_us.sort_unstable();
        let at = |percent: usize| {
            let index = self.latencies_us.len().saturating_sub(1) * percent / 100;
            self.latencies_us.get(index).copied().unwrap_or_default()
        };
        Summary {
            p50_us: at(50),
            p99_us: at(99),
            max_us: at(100),
            ..self.summary.clone()
        }
    }
}

fn write_log(file: File, landings: &mut [Landing]) -> io::Result<()> {
    landings.sort_by_key(|landing| landing.begin_ns);
    let mut writer = BufWriter::new(file);
    for landing in landings.iter() {
        serde_json::to_writer(&mut writer, landing)?;
        writeln!(writer)?;
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(server: &str, elapsed_us: u64) -> Attempt {
        Attempt {
            server: Some(server.into()),
            elapsed_us,
            ..Attempt::default()
        }
    }

    #[test]
    fn sums_answers_errors_and_latencies_over_workers() {
        let (mut one, mut two) = (Tally::default(), Tally::default());
        for us in 1..=99 {
            one.count(&answered("a", us));
        }
        two.count(&answered("b", 1000));
        two.count(&Attempt {
            errno: Some("EOF".into()),
            ..Attempt::default()
        });
        one.add(two);
        let summary = one.finish();
        assert_eq!((summary.requests, summary.failed), (101, 1));
        assert_eq!(summary.by_server["a"], 99);
        assert_eq!(summary.by_server["b"], 1);
        assert_eq!(summary.errors["EOF"], 1);
        assert_eq!(
            (summary.p50_us, summary.p99_us, summary.max_us),
            (50, 99, 1000)
        );
    }
}
