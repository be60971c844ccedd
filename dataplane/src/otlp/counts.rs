//! What became of spans.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What becomes of a span: exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Outcome {
    /// The collector took it.
    #[allow(non_camel_case_types)]
    exported,
    /// Not of the share that is traced: no loss.
    #[allow(non_camel_case_types)]
    sampled_out,
    /// The second's bytes were used up.
    #[allow(non_camel_case_types)]
    over_budget,
    /// The collector is slower than the flows.
    #[allow(non_camel_case_types)]
    queue_full,
    /// The collector refused it, or was not there for too long.
    #[allow(non_camel_case_types)]
    failed,
    /// The collector took the batch without it.
    #[allow(non_camel_case_types)]
    rejected,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReportLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FlowLabel {
    became: &'static str,
}

/// What is counted of many flows at once.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Flows of which there are spans.
    pub(super) spans: u64,
    /// Flows of which there are none.
    pub(super) nothing: u64,
    outcomes: Vec<(Outcome, u64)>,
}

impl Tally {
    /// A span ended so.
    pub(super) fn count(&mut self, outcome: Outcome) {
        match self.outcomes.iter_mut().find(|(o, _)| *o == outcome) {
            Some((_, spans)) => *spans += 1,
            None => self.outcomes.push((outcome, 1)),
        }
    }
}

/// Counters of the export.
#[derive(Debug, Default)]
pub struct ExportMetrics {
    flows: Family<FlowLabel, Counter>,
    spans: Family<OutcomeLabel, Counter<u64, AtomicU64>>,
    requests: Counter,
    overtaken: Counter,
    reports: Family<ReportLabel, Counter>,
}

impl ExportMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Spans of connections, refusals and requests, by what became of them";
        registry.register("otlp_spans", help, self.spans.clone());
        let help = "Spans of requests that came from Envoy";
        registry.register("otlp_requests", help, self.requests.clone());
        let help = "Flows that the export has looked at, by whether there are spans of them";
        registry.register("otlp_flows", help, self.flows.clone());
        let help = "Flows that were forgotten before they became spans";
        registry.register("otlp_flows_overtaken", help, self.overtaken.clone());
        let help = "Times that metrics were exported, or were not";
        registry.register("otlp_reports", help, self.reports.clone());
    }

    pub(super) fn count(&self, outcome: Outcome, spans: u64) {
        if spans > 0 {
            let label = OutcomeLabel { outcome };
            self.spans.get_or_create(&label).inc_by(spans);
        }
    }

    /// These were looked at, and these outcomes were found.
    pub(super) fn add(&self, tally: &mut Tally) {
        for (became, flows) in [("spans", tally.spans), ("nothing", tally.nothing)] {
            if flows > 0 {
                let label = FlowLabel { became };
                self.flows.get_or_create(&label).inc_by(flows);
            }
        }
        for (outcome, spans) in &tally.outcomes {
            self.count(*outcome, *spans);
        }
        *tally = Tally::default();
    }

    pub(super) fn requested(&self) {
        self.requests.inc();
    }

    pub(super) fn overtaken(&self, flows: u64) {
        self.overtaken.inc_by(flows);
    }

    pub(super) fn reported(&self, arrived: bool) {
        let outcome = if arrived { "exported" } else { "failed" };
        self.reports.get_or_create(&ReportLabel { outcome }).inc();
    }

    /// Flows of which there are spans.
    #[cfg(test)]
    pub(super) fn with_spans(&self) -> u64 {
        let label = FlowLabel { became: "spans" };
        self.flows.get_or_create(&label).get()
    }

    /// Spans that ended so.
    #[must_use]
    pub fn get(&self, outcome: Outcome) -> u64 {
        self.spans.get_or_create(&OutcomeLabel { outcome }).get()
    }
}
