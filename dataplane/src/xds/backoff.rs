//! Pauses between attempts: exponential, with full jitter, so that nodes do not come back in step.

use std::time::Duration;

pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    attempt: u32,
}

impl Backoff {
    pub(crate) fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            attempt: 0,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.attempt = 0;
    }

    /// Anything from nothing up to `base * 2^attempt`, at most `cap`.
    pub(crate) fn next(&mut self) -> Duration {
        let bound = self.bound();
        self.attempt = self.attempt.saturating_add(1);
        bound.mul_f64(fastrand::f64())
    }

    fn bound(&self) -> Duration {
        let factor = 2u32.checked_pow(self.attempt).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_double_up_to_the_cap_and_begin_anew() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(15));
        let mut bounds = Vec::new();
        for _ in 0..40 {
            bounds.push(backoff.bound());
            assert!(backoff.next() <= bounds[bounds.len() - 1]);
        }
        assert_eq!(bounds[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(bounds[39], Duration::from_secs(15));
        backoff.reset();
        assert_eq!(backoff.bound(), Duration::from_millis(100));
    }
}
