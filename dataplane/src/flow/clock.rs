//! The kernel's time as the time of day.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// What has to be added to `CLOCK_MONOTONIC`, as of one moment. Taken anew for each batch of events: NTP slews one clock against
/// the other, and people set the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    offset_ns: i128,
    now_ns: u64,
}

impl Clock {
    /// As of now.
    #[must_use]
    pub fn now() -> Self {
        // The mean of two readings around the other clock's: an interruption between them shifts it by half of its length.
        let before = nanos(clock_gettime(ClockId::Monotonic));
        let real = nanos(clock_gettime(ClockId::Realtime));
        let after = nanos(clock_gettime(ClockId::Monotonic));
        Self {
            offset_ns: real - i128::midpoint(before, after),
            now_ns: u64::try_from(after).unwrap_or_default(),
        }
    }

    /// A clock for tests and golden files: this many nanoseconds since 1970 are `monotonic_ns`, which is now.
    #[must_use]
    pub fn fixed(unix_ns: u64, monotonic_ns: u64) -> Self {
        Self {
            offset_ns: i128::from(unix_ns) - i128::from(monotonic_ns),
            now_ns: monotonic_ns,
        }
    }

    /// Nanoseconds since 1970.
    #[must_use]
    pub fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        u64::try_from(i128::from(monotonic_ns) + self.offset_ns).unwrap_or_default()
    }

    /// Nanoseconds since `monotonic_ns`; 0 if that is to come.
    #[must_use]
    pub fn since(&self, monotonic_ns: u64) -> u64 {
        self.now_ns.saturating_sub(monotonic_ns)
    }

    /// Nanoseconds until `monotonic_ns`; 0 if that is past.
    #[must_use]
    pub fn until(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_sub(self.now_ns)
    }
}

fn nanos(time: Timespec) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_moment_now_is_now() {
        let clock = Clock::now();
        let now = clock_gettime(ClockId::Monotonic);
        let told = clock.unix_ns(u64::try_from(nanos(now)).expect("after boot"));
        let expected = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("after 1970");
        let difference = expected.abs_diff(Duration::from_nanos(told));
        assert!(difference < Duration::from_millis(100), "{difference:?}");
    }

    #[test]
    fn before_1970_there_is_nothing() {
        assert_eq!(Clock::fixed(5, 10).unix_ns(3), 0);
        assert_eq!(Clock::fixed(5, 10).unix_ns(12), 7);
        assert_eq!(Clock::fixed(5, 10).since(12), 0);
    }
}
