//! Flows and sweeps in numbers.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::enrich::verdict;
use super::{Event, EventKind, Reason};
use crate::conntrack::Swept;

/// From an empty table, 20 µs, to a million entries on a slow machine.
const SWEEP_SECONDS: [f64; 12] = [
    0.000_05, 0.000_25, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.5, 2.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FlowLabels {
    event: &'static str,
    reason: &'static str,
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// What is counted as it happens.
#[derive(Debug)]
pub struct FlowMetrics {
    flows: Family<FlowLabels, Counter>,
    sweep_seconds: Histogram,
    swept: Family<OutcomeLabel, Counter>,
}

impl Default for FlowMetrics {
    fn default() -> Self {
        Self {
            flows: Family::default(),
            sweep_seconds: Histogram::new(SWEEP_SECONDS),
            swept: Family::default(),
        }
    }
}

impl FlowMetrics {
    /// Shows them in `registry`.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Events of connections that were read from the kernel";
        registry.register("flows", help, self.flows.clone());
        registry.register_with_unit(
            "conntrack_sweep",
            "One pass of the kernel over all connections",
            Unit::Seconds,
            self.sweep_seconds.clone(),
        );
        let help = "Connections that sweeps have ended";
        registry.register("conntrack_swept", help, self.swept.clone());
    }

    /// These events were read.
    pub fn count(&self, events: &[Event]) {
        let mut counts: Vec<((EventKind, Reason), u64)> = Vec::new();
        for event in events {
            let sort = (event.kind, event.reason);
            match counts.iter_mut().find(|(known, _)| *known == sort) {
                Some((_, count)) => *count += 1,
                None => counts.push((sort, 1)),
            }
        }
        for ((kind, reason), count) in counts {
            let labels = FlowLabels {
                event: kind.word(),
                reason: reason.word(),
                verdict: verdict(kind),
            };
            self.flows.get_or_create(&labels).inc_by(count);
        }
    }

    /// A sweep is done.
    pub fn swept(&self, took: Duration, swept: &Swept) {
        self.sweep_seconds.observe(took.as_secs_f64());
        for (outcome, count) in [("expired", swept.expired), ("revoked", swept.revoked)] {
            let counter = self.swept.get_or_create(&OutcomeLabel { outcome });
            counter.inc_by(count.into());
        }
    }
}
