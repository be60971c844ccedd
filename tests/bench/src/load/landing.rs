//! Waiting for a change to show: connect until the answer comes from the new backend.

use std::thread;
use std::time::{Duration, Instant};

use super::job::{Landing, Outcome};
use super::wire::{self, now_ns};

/// Patience with one try. A SYN that meets no rule may vanish without an answer, and
/// waiting a second for its repetition would blur what is measured.
const TRY: Duration = Duration::from_millis(25);

/// Connects until one lands where `job` wants it.
pub(super) fn wait(job: &Landing) -> Outcome {
    let until = Instant::now() + Duration::from_millis(job.timeout_ms);
    let mut random = fastrand::Rng::new();
    while Instant::now() < until {
        let landed = job.targets.pick(&mut random).and_then(|to| {
            let mut stream = wire::connect(to, None, TRY).ok()?;
            let established = now_ns();
            let backend = wire::exchange(&mut stream).ok()?.backend;
            job.backend
                .is_none_or(|wanted| wanted == backend)
                .then_some(established)
        });
        if landed.is_some() {
            return Outcome::Landed(landed);
        }
        thread::sleep(Duration::from_micros(job.every_us));
    }
    Outcome::Landed(None)
}
