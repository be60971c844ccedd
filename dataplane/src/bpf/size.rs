//! Sizes of maps that follow the machine's.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

/// Tracked connections per processor, and at least: what kube-proxy gives the kernel's own connection tracking
/// (`--conntrack-max-per-core`, `--conntrack-min`). A table much larger than what is in it costs every new connection a wait for
/// memory, and every sweep a walk over empty places.
const CONNECTIONS_PER_PROCESSOR: usize = 32_768;
const CONNECTIONS_AT_LEAST: usize = 131_072;

/// Entries of the map called `name` where nobody has asked for a size; `None`: as in `bpf/include/maps.h`.
pub(super) fn of_machine(name: &str) -> Option<u32> {
    (name == "ct").then(|| connections(available_parallelism().map_or(1, NonZeroUsize::get)))
}

fn connections(processors: usize) -> u32 {
    let wanted = CONNECTIONS_PER_PROCESSOR
        .saturating_mul(processors)
        .max(CONNECTIONS_AT_LEAST);
    u32::try_from(wanted).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_grow_with_the_machine() {
        assert_eq!(connections(1), 131_072);
        assert_eq!(connections(4), 131_072);
        assert_eq!(connections(64), 2_097_152);
        assert_eq!(of_machine("services"), None);
        assert!(of_machine("ct") >= Some(131_072));
    }
}
