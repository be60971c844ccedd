//! Map `counters`, summed over CPUs.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::abi::from_bytes;
use super::programs::Programs;
use super::types::counter;
use crate::metrics::ProgramRuns;

/// The kernel's counters.
pub struct Counters {
    map: MapHandle,
    programs: Programs,
}

const NAMES: [(counter, &str); 29] = [
    (counter::COUNTER_CONNECTIONS, "connections"),
    (counter::COUNTER_REFUSED, "refused"),
    (counter::COUNTER_DATAGRAMS, "datagrams"),
    (counter::COUNTER_AFFINITY_HITS, "affinity_hits"),
    (counter::COUNTER_CHOICE_RETRIES, "choice_retries"),
    (counter::COUNTER_CHOICE_FAILURES, "choice_failures"),
    (counter::COUNTER_UDP_PEERS_EVICTED, "udp_peers_evicted"),
    (counter::COUNTER_STORAGE_FAILURES, "storage_failures"),
    (counter::COUNTER_SOCKETS_CLOSED, "sockets_closed"),
    (counter::COUNTER_UNTRACKED, "untracked"),
    (counter::COUNTER_EVENTS_LOST, "events_lost"),
    (counter::COUNTER_PACKETS_REFUSED, "packets_refused"),
    (counter::COUNTER_CONNTRACK_FULL, "conntrack_full"),
    (counter::COUNTER_LIMITED, "limited"),
    (counter::COUNTER_ACCELERATED, "accelerated_pairs"),
    (counter::COUNTER_ACCELERATED_BYTES, "accelerated_bytes"),
    (
        counter::COUNTER_ACCELERATED_MESSAGES,
        "accelerated_messages",
    ),
    (counter::COUNTER_ACCEL_FULL, "acceleration_full"),
    (counter::COUNTER_TCP_LATE, "acceleration_late"),
    (counter::COUNTER_TCP_BOUND, "acceleration_bound"),
    (counter::COUNTER_TCP_READER, "acceleration_reader"),
    (counter::COUNTER_TCP_POLICY, "acceleration_policy"),
    (counter::COUNTER_TCP_MEMORY, "acceleration_memory"),
    (counter::COUNTER_TCP_STATE, "acceleration_state"),
    (counter::COUNTER_TCP_ENDED, "acceleration_ended"),
    (counter::COUNTER_TCP_STREAM, "acceleration_stream"),
    (counter::COUNTER_OUTSIDE, "outside"),
    (counter::COUNTER_OUTSIDE_REFUSED, "outside_refused"),
    (counter::COUNTER_NAT_FULL, "nat_full"),
];
const _: () = assert!(NAMES.len() == counter::COUNTERS.0 as usize);

impl Counters {
    /// Counters over `map`, and what the kernel counts of `programs`.
    pub(super) const fn new(map: MapHandle, programs: Programs) -> Self {
        Self { map, programs }
    }

    /// Runs of each program since it was loaded.
    #[must_use]
    pub fn programs(&self) -> Vec<ProgramRuns> {
        self.programs.runs()
    }

    /// Each counter's name and its sum since the maps were made.
    #[must_use]
    pub fn read(&self) -> Vec<(&'static str, u64)> {
        NAMES
            .into_iter()
            .map(|(which, name)| (name, self.sum(which)))
            .collect()
    }

    fn sum(&self, which: counter) -> u64 {
        self.map
            .lookup_percpu(&which.0.to_ne_bytes(), MapFlags::ANY)
            .ok()
            .flatten()
            .unwrap_or_default()
            .iter()
            .filter_map(|bytes| from_bytes::<u64>(bytes))
            .sum()
    }
}
