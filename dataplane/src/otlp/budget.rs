//! How many bytes a second may leave.

use std::time::{Duration, Instant};

/// A bucket that holds one second's bytes.
#[derive(Debug)]
pub(super) struct Budget {
    /// 0: no bound.
    per_second: f64,
    left: f64,
    at: Instant,
}

impl Budget {
    pub(super) fn new(per_second: u64, now: Instant) -> Self {
        let per_second = per_second as f64;
        Self {
            per_second,
            left: per_second,
            at: now,
        }
    }

    /// Whether there is a bound: else nobody has to know how large things are.
    pub(super) fn is_bounded(&self) -> bool {
        self.per_second > 0.0
    }

    /// Whether `bytes` may go. What is urgent may use up the second to come as well: a flood of ordinary connections keeps no
    /// refusal from being told, and a flood of refusals is bounded.
    pub(super) fn take(&mut self, bytes: usize, urgent: bool, now: Instant) -> bool {
        if self.per_second == 0.0 {
            return true;
        }
        let passed: Duration = now.saturating_duration_since(self.at);
        self.at = self.at.max(now);
        self.left = (self.left + passed.as_secs_f64() * self.per_second).min(self.per_second);
        let least = if urgent { -self.per_second } else { 0.0 };
        let left = self.left - bytes as f64;
        if left < least {
            return false;
        }
        self.left = left;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_gives_what_was_asked_for_and_refusals_come_first() {
        let start = Instant::now();
        let mut budget = Budget::new(1_000, start);
        assert!(budget.take(600, false, start) && budget.take(400, false, start));
        assert!(!budget.take(1, false, start));
        assert!(budget.take(1_000, true, start), "of the second to come");
        assert!(!budget.take(1, true, start), "but of no more");
        let later = start + Duration::from_millis(1_500);
        assert!(budget.take(500, false, later) && !budget.take(1, false, later));
        let idle = later + Duration::from_secs(60);
        assert!(budget.take(1_000, false, idle) && !budget.take(1, false, idle));
    }

    #[test]
    fn without_a_bound_everything_goes() {
        let mut budget = Budget::new(0, Instant::now());
        assert!(budget.take(usize::MAX, false, Instant::now()));
    }
}
