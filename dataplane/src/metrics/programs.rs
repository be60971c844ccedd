//! What the kernel has counted of Weft's programs.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

/// Runs of one program. The kernel counts them while `kernel.bpf_stats_enabled` is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRuns {
    /// As in `bpf/`.
    pub name: String,
    /// How often.
    pub runs: u64,
    /// How long in all.
    pub nanos: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProgramLabel {
    program: String,
}

#[derive(Debug, Default)]
pub(super) struct ProgramMetrics {
    runs: Family<ProgramLabel, Counter>,
    seconds: Family<ProgramLabel, Counter<f64, AtomicU64>>,
}

impl ProgramMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let help = "Runs of a kernel program, as far as kernel.bpf_stats_enabled was 1";
        r.register("program_runs", help, self.runs.clone());
        let help = "Time that a kernel program ran, likewise";
        r.register_with_unit("program_run", help, Unit::Seconds, self.seconds.clone());
    }

    pub(super) fn take(&self, programs: &[ProgramRuns]) {
        for of in programs {
            let program = of.name.clone();
            let label = ProgramLabel { program };
            let runs = self.runs.get_or_create(&label);
            runs.inner().store(of.runs, Ordering::Relaxed);
            let seconds = of.nanos as f64 / 1e9;
            let counter = self.seconds.get_or_create(&label);
            counter.inner().store(seconds.to_bits(), Ordering::Relaxed);
        }
    }
}
