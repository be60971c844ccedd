//! Same-node acceleration: applications see nothing else than TCP.

use anyhow::{bail, ensure};
use weft_e2e::Result;
use weft_e2e::accel::Pair;

/// Scenarios in which bytes are accelerated, and neither end may notice. See `peers/accel`.
const SCENARIOS: [&str; 24] = [
    "ping",
    "hello",
    "both",
    "both-small",
    "half",
    "half-back",
    "late-reader",
    "broken-pipe",
    "reset",
    "killed",
    "peek",
    "fionread",
    "lowat",
    "epoll",
    "epoll-edge",
    "short-reads",
    "iovecs",
    "writev",
    "cork",
    "sendfile",
    "splice",
    "outq",
    "fork",
    "passed",
];
/// Of a scenario in which the first message may come before both ends are known.
const ATTEMPTS: u32 = 5;
/// Scenarios of sockets that block.
const BLOCKING: [&str; 3] = ["waitall", "signals", "timeout"];

#[test]
fn applications_see_nothing_but_tcp() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    for scenario in SCENARIOS {
        accelerate(&mut pair, scenario)?;
    }
    Ok(())
}

/// Whether a connection is accelerated hangs on which end is first. What it carries has to be right each time.
fn accelerate(pair: &mut Pair, scenario: &str) -> Result {
    for _ in 0..ATTEMPTS {
        let before = pair.count("accelerated_bytes")?;
        pair.run(scenario)?;
        let bytes = pair.count("accelerated_bytes")? - before;
        eprintln!("{scenario}: {bytes} bytes");
        if bytes > 0 {
            return Ok(());
        }
    }
    bail!("{scenario}: nothing was accelerated in {ATTEMPTS} attempts")
}

#[test]
fn sockets_that_block_are_left_to_tcp() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    let before = pair.count("accelerated_pairs")?;
    for scenario in BLOCKING {
        pair.run(scenario)?;
    }
    let after = pair.count("accelerated_pairs")?;
    ensure!(
        after == before,
        "{} pairs of blocking sockets",
        after - before
    );
    Ok(())
}

#[test]
fn a_reader_that_sleeps_holds_its_writer_back() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    let bounds = pair.count("acceleration_bound")?;
    for _ in 0..ATTEMPTS {
        pair.run("sleeper")?;
        if pair.count("acceleration_bound")? > bounds {
            return Ok(());
        }
    }
    bail!("the bound was not met in {ATTEMPTS} attempts")
}

/// What sockmap redirection does by itself: see docs/acceleration.md.
#[test]
fn without_the_bound_the_queue_grows() -> Result {
    let mut pair = Pair::start(&["--acceleration-bound", "4294967295"])?;
    pair.wait_accelerated()?;
    for _ in 0..ATTEMPTS {
        // Not accelerated, it is held back by TCP.
        let Err(error) = pair.run("sleeper") else {
            continue;
        };
        let error = error.to_string();
        ensure!(error.contains("were taken though nobody read"), "{error}");
        eprintln!("{error}");
        return Ok(());
    }
    bail!("the writer was held back in {ATTEMPTS} attempts")
}
