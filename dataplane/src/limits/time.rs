//! Times that the kernel gives, seen from now.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds until this CLOCK_MONOTONIC time; 0 if it is over. An ejection that has begun to end is not over: rounded up.
pub(crate) fn time_left(until_ns: u64) -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    let now_ns = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    until_ns.saturating_sub(now_ns).div_ceil(1_000_000)
}
