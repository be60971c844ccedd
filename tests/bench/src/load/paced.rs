//! HTTP requests at a constant rate, whatever the answers do.
//!
//! Every request has a time at which it is due, and its latency counts from then: an answer that is late delays
//! none of the following ones unseen ("coordinated omission", Gil Tene, as in wrk2).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::thread::set_current_timer_slack;

use super::client::Tally;
use super::job::Paced;
use super::wire;

/// Longest answer that is read.
const MOST: usize = 64 << 10;

/// Share `index` of the requests of `job`, which are due from now until `until`.
pub(super) fn pace(job: &Paced, index: usize, until: Instant) -> Result<Tally> {
    // Else the kernel wakes a sleeper up to 50 µs late, for everybody alike.
    set_current_timer_slack(NonZeroU64::new(1)).context("asking for exact timers")?;
    let mut tally = Tally::new()?;
    let share = Duration::from_secs_f64(job.connections as f64 / job.per_second);
    let offset = share.mul_f64(index as f64 / job.connections as f64);
    let mut due = until - Duration::from_millis(job.millis) + offset;
    let mut connection = None;
    while due < until {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        match ask(job, &mut connection) {
            Ok(()) => {
                let took = Instant::now().saturating_duration_since(due);
                tally.samples.saturating_record(took.as_nanos() as u64);
            }
            Err(_) => {
                tally.failed += 1;
                connection = None;
            }
        }
        due += share;
    }
    Ok(tally)
}

/// One request, over the connection if there is one.
fn ask(job: &Paced, connection: &mut Option<TcpStream>) -> io::Result<()> {
    let stream = match connection {
        Some(stream) => stream,
        None => {
            let patience = Duration::from_millis(job.timeout_ms);
            connection.insert(wire::connect(job.target, None, patience)?)
        }
    };
    exchange(stream, job.target, &job.path)
}

fn exchange(stream: &mut TcpStream, host: SocketAddr, path: &str) -> io::Result<()> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::with_capacity(1024);
    let mut buffer = [0u8; 4096];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 || answer.len() > MOST {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if let Some(whole) = is_whole(&answer) {
            return whole;
        }
    }
}

/// `None`: there is more to come. An error: an answer that is none, or not 200.
fn is_whole(answer: &[u8]) -> Option<io::Result<()>> {
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(answer.get(..head)?).into_owned();
    if !text.starts_with("HTTP/1.1 200 ") {
        return Some(Err(io::Error::other(text)));
    }
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    let Some(length) = length else {
        return Some(Err(io::Error::other("an answer without a length")));
    };
    (answer.len() >= head + 4 + length).then_some(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_where_their_length_says() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-length: 2\r\n\r\nok";
        for end in 0..whole.len() {
            assert!(is_whole(&whole[..end]).is_none(), "{end}");
        }
        assert!(matches!(is_whole(whole), Some(Ok(()))));
        let refused = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
        assert!(matches!(is_whole(refused), Some(Err(_))));
    }
}
