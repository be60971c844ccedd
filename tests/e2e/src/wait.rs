//! Waiting for a condition, with a message when it does not come true.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::Result;

/// Long enough for anything that is not broken, also on a loaded machine or an emulated one.
pub const LONG: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// Tries `attempt` until it returns a value; its last `Err` says why it did not.
///
/// # Errors
/// When `within` is over.
pub fn eventually<T>(within: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + within;
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() > deadline => {
                bail!("not within {within:?}: {error:#}")
            }
            Err(_) => sleep(PAUSE),
        }
    }
}
