//! Same-node acceleration: applications see nothing else than TCP.

use anyhow::{bail, ensure};
use weft_e2e::Result;
use weft_e2e::accel::{Pair, SCENARIOS};

/// Scenarios of sockets that block.
const BLOCKING: [&str; 3] = ["waitall", "signals", "timeout"];

#[test]
fn applications_see_nothing_but_tcp() -> Result {
    let mut pair = Pair::start(&[])?;
    pair.wait_accelerated()?;
    for scenario in SCENARIOS {
        let before = pair.count("accelerated_bytes")?;
        pair.run(scenario)?;
        let bytes = pair.count("accelerated_bytes")? - before;
        eprintln!("{scenario}: {bytes} bytes");
        // More than the greeting.
        ensure!(bytes > 1, "{scenario}: nothing was accelerated");
    }
    Ok(())
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
    pair.run("sleeper")?;
    ensure!(pair.count("acceleration_bound")? > bounds, "not met");
    Ok(())
}

/// A fraction of this is used before a writer has to wait, so that nearly each of these messages does.
const LITTLE: [&str; 2] = ["--acceleration-bound", "65536"];
const STREAM: u64 = 2 << 20;
const TRIES: u32 = 50;

#[test]
fn a_writer_waits_for_a_reader_that_is_busy_reading() -> Result {
    let mut pair = Pair::start(&LITTLE)?;
    pair.wait_accelerated()?;
    // Readers that the scheduler keeps away are no busy readers: one that was not is enough.
    let mut most = 0;
    for _ in 0..TRIES {
        let before = pair.count("accelerated_bytes")?;
        pair.run("stream")?;
        most = most.max(pair.count("accelerated_bytes")? - before);
        if most > STREAM {
            return Ok(());
        }
    }
    bail!("{most} bytes were accelerated at most, of {STREAM}")
}
