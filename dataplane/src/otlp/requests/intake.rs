//! Where Envoy's spans come in.

use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::sync::mpsc;

use crate::metrics::Metrics;
use crate::otlp::Outcome;

/// Spans that wait to be joined to connections, about 2 KiB each.
const QUEUE: usize = 4_096;

/// Takes spans of requests for the export, and waits for nobody.
#[derive(Clone, Debug)]
pub struct RequestSink {
    queue: mpsc::Sender<Span>,
    metrics: Arc<Metrics>,
}

impl RequestSink {
    /// One, and what the export reads.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> (Self, mpsc::Receiver<Span>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        (Self { queue, metrics }, waiting)
    }

    /// False: it is lost, and counted.
    pub(crate) fn take(&self, span: Span) -> bool {
        self.metrics.export.requested();
        let taken = self.queue.try_send(span).is_ok();
        if !taken {
            self.metrics.export.count(Outcome::queue_full, 1);
        }
        taken
    }
}
