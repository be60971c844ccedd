//! What sockmap redirection does by itself, and with Weft: a reader sleeps, and its writer goes on as long as it can.
//!
//! `cargo test -p weft-e2e --test naive_sockmap -- --nocapture` prints what docs/acceleration.md shows.

use std::fs;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::Result;
use weft_e2e::accel::Pair;
use weft_e2e::wait::{LONG, eventually};
use weft_lab::{Process, naive};

const MIB: u64 = 1 << 20;
/// What socket buffers and the bound may take at most; see `sleeper` in `peers/accel/exchange.py`.
const BOUNDED: u64 = 24 * MIB;

/// What one writer could write while nobody read.
struct Held {
    /// `None`: until the whole host was out of memory for TCP, and send() failed.
    taken: Option<u64>,
    /// Bytes that TCP held on the whole host, at most, above what it did before.
    memory: u64,
}

#[test]
fn a_naive_queue_has_no_bound() -> Result {
    let mut pair = Pair::start(&["--acceleration", "off"])?;
    let over_tcp = sleep_over(&mut pair, "plain TCP")?;
    naive::attach(&pair.mesh.lab.node("n1")?)?;
    let unbound = sleep_over(&mut pair, "naive redirection")?;
    drop(pair);
    let mut weft = Pair::start(&[])?;
    weft.wait_accelerated()?;
    let bounds = weft.count("acceleration_bound")?;
    let with_weft = sleep_over(&mut weft, "Weft's redirection")?;
    ensure!(
        weft.count("acceleration_bound")? > bounds,
        "nothing was redirected"
    );
    for bounded in [over_tcp, with_weft] {
        ensure!(bounded.taken.is_some_and(|taken| taken < BOUNDED));
    }
    let unbounded = unbound.taken.is_none_or(|taken| taken > 4 * BOUNDED);
    ensure!(
        unbounded && unbound.memory > 4 * BOUNDED,
        "naive redirection is bounded here"
    );
    Ok(())
}

/// The writer's four seconds.
fn sleep_over(pair: &mut Pair, how: &str) -> Result<Held> {
    let port = pair.port();
    let server = pair.mesh.pod("server")?.socket_v4(port);
    let before = tcp_memory()?;
    let (_reader, writer) = pair.begin("sleeper", server, server)?;
    let mut most = before;
    let taken = eventually(LONG, || {
        most = most.max(tcp_memory()?);
        taken(&writer)
    })?;
    let memory = most - before;
    let written = taken.map_or("ENOMEM".to_owned(), |taken| {
        format!("{} KiB written", taken / 1024)
    });
    let memory_kib = memory / 1024;
    eprintln!(
        "{how:<20} {written:>20} in 4 s while the reader slept, {memory_kib:>8} KiB of TCP memory"
    );
    Ok(Held { taken, memory })
}

fn taken(writer: &Process) -> Result<Option<u64>> {
    let (said, complaint) = (writer.stdout(), writer.stderr());
    if complaint.contains("Cannot allocate memory") {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(said.trim()).with_context(|| complaint)?;
    Ok(Some(value["taken"].as_u64().context("no figure")?))
}

/// Bytes that TCP holds on the whole host: `mem` of /proc/net/sockstat counts pages.
fn tcp_memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/net/sockstat")?;
    let line = text.lines().find(|line| line.starts_with("TCP:"));
    let pages = line.and_then(|line| line.split(" mem ").nth(1)?.trim().parse::<u64>().ok());
    let pages = pages.context("/proc/net/sockstat without TCP's memory")?;
    let size = Command::new("getconf").arg("PAGESIZE").output()?.stdout;
    Ok(pages * String::from_utf8(size)?.trim().parse::<u64>()?)
}
