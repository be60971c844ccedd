//! The kernel's tick, in which programs have to give some times.

use rustix::time::{ClockId, clock_getres};

const NANOS: u64 = 1_000_000_000;

/// CONFIG_HZ of the running kernel: its coarse clocks advance with each tick.
pub(super) fn ticks_per_second() -> u32 {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    let nanos = u64::try_from(tick.tv_nsec).unwrap_or(0).max(1);
    // 300 ticks make 3,333,333 ns: to the nearest.
    u32::try_from((NANOS + nanos / 2) / nanos).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_ticks_a_hundred_to_a_thousand_times_a_second() {
        assert!((100..=1000).contains(&ticks_per_second()));
    }
}
