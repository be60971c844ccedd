//! Why there is a bound. By itself, as the host's TCP is short of memory meanwhile, and then nothing else is accelerated.

use anyhow::{Context, ensure};
use weft_e2e::Result;
use weft_e2e::accel::Pair;

/// What sockmap redirection does by itself: see docs/acceleration.md.
#[test]
fn without_the_bound_the_queue_grows() -> Result {
    let mut pair = Pair::start(&["--acceleration-bound", "4294967295"])?;
    pair.wait_accelerated()?;
    // Not accelerated, it would be held back by TCP.
    let error = pair.run("sleeper").err().context("it was held back")?;
    let error = error.to_string();
    ensure!(error.contains("were taken though nobody read"), "{error}");
    eprintln!("{error}");
    Ok(())
}
