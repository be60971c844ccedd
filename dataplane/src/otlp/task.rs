//! From the log of flows to the collector.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::batch;
use super::budget::Budget;
use super::counts::Outcome;
use super::report::{Gather, Reporter};
use super::requests::Requests;
use super::sampling::Sampling;
use super::span::{Told, spans};
use super::target::{Header, Target};
use super::transport::{Again, SendError, Transport};
use crate::flow::{FlowLog, NamedEvent};
use crate::metrics::Metrics;

/// Spans that wait for the collector, about 2 KiB each.
const QUEUE: usize = 8_192;
/// Spans of a request.
const BATCH: usize = 512;
/// A batch is not waited for longer than this.
const LINGER: Duration = Duration::from_secs(1);
/// Tries of one batch.
const ATTEMPTS: u32 = 6;
/// Pause after the first failure; each next one is twice as long, and up to a half of it shorter by chance.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// What is left may still go when the agent ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// What to export, and where to.
#[derive(Clone, Debug)]
pub struct ExportConfig {
    /// The collector.
    pub target: Target,
    /// Sent with each request.
    pub headers: Vec<Header>,
    /// Which connections are traced.
    pub sampling: Sampling,
    /// Bytes of spans a second; 0: no bound.
    pub bytes_per_second: u64,
    /// Between two looks at the metrics; 0: they are not exported.
    pub metrics_interval: Duration,
}

/// Exports what `log` is told of from now on, and Envoy's spans of `requests`, until `drain` is cancelled. `node`: this one's name.
///
/// # Errors
/// When no way to the collector can be set up; never because it is not there.
pub async fn export(
    config: ExportConfig,
    node: String,
    log: FlowLog,
    requests: mpsc::Receiver<Span>,
    metrics: Arc<Metrics>,
    gather: impl Gather,
    drain: CancellationToken,
) -> Result<(), String> {
    let transport = Transport::new(&config.target, &config.headers)
        .map_err(|e| format!("--otlp {}: {e}", config.target))?;
    let (queue, waiting) = mpsc::channel(QUEUE);
    let reporter = Reporter {
        node: node.clone(),
        every: config.metrics_interval,
        transport: transport.clone(),
        metrics: Arc::clone(&metrics),
        gather,
    };
    let feeder = Feeder {
        node,
        sampling: config.sampling,
        budget: Budget::new(config.bytes_per_second, Instant::now()),
        queue,
        metrics: Arc::clone(&metrics),
        requests: Requests::default(),
    };
    let sender = Sender {
        target: config.target,
        transport,
        metrics,
        failing: false,
    };
    let (feeding, reporting) = (drain.clone(), drain.clone());
    tokio::join!(
        feeder.run(log, requests, feeding),
        reporter.run(reporting),
        sender.run(waiting, drain)
    );
    Ok(())
}

/// Makes spans, and waits for nobody.
struct Feeder {
    node: String,
    sampling: Sampling,
    budget: Budget,
    queue: mpsc::Sender<Told>,
    metrics: Arc<Metrics>,
    requests: Requests,
}

impl Feeder {
    async fn run(
        mut self,
        log: FlowLog,
        mut spans: mpsc::Receiver<Span>,
        drain: CancellationToken,
    ) {
        let (_, mut cursor) = log.follow();
        loop {
            let due = self.requests.next();
            tokio::select! {
                () = drain.cancelled() => return,
                chunk = cursor.next() => {
                    self.metrics.export.overtaken(chunk.lost);
                    for named in &chunk.flows {
                        self.requests.remember(named);
                        self.tell(named);
                    }
                }
                Some(span) = spans.recv() => self.requests.wait(span, Instant::now()),
                () = sleep_until(due) => {}
            }
            while let Some(told) = self.requests.due(Instant::now()) {
                let outcome = self.pay(&told).and_then(|()| self.put(told));
                if let Err(outcome) = outcome {
                    self.metrics.export.count(outcome, 1);
                }
            }
            // A flood must not keep this thread from its other tasks.
            tokio::task::yield_now().await;
        }
    }

    fn put(&self, told: Told) -> Result<(), Outcome> {
        self.queue.try_send(told).map_err(|_| Outcome::queue_full)
    }

    fn tell(&mut self, named: &NamedEvent) {
        let spans = spans(named, &self.node);
        self.metrics.export.looked_at(!spans.is_empty());
        for mut told in spans {
            let outcome = self.admit(named, &mut told).and_then(|()| self.put(told));
            if let Err(outcome) = outcome {
                self.metrics.export.count(outcome, 1);
            }
        }
    }

    fn admit(&mut self, named: &NamedEvent, told: &mut Told) -> Result<(), Outcome> {
        if !told.urgent {
            let workload = if self.sampling.by_workload() {
                let to = named.destination();
                format!("{}/{}", to.namespace, to.workload)
            } else {
                String::new()
            };
            let trace = told.span.trace_id.as_slice().try_into().unwrap_or_default();
            let state = self.sampling.decide(trace, &workload);
            told.span.trace_state = state.ok_or(Outcome::sampled_out)?;
        }
        self.pay(told)
    }

    /// Of the second's bytes.
    fn pay(&mut self, told: &Told) -> Result<(), Outcome> {
        if !self.budget.is_bounded() {
            return Ok(());
        }
        let bytes = told.span.encoded_len();
        match self.budget.take(bytes, told.urgent, Instant::now()) {
            true => Ok(()),
            false => Err(Outcome::over_budget),
        }
    }
}

/// Never, if there is nothing to wait for.
async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Sends batches, one at a time.
struct Sender {
    target: Target,
    transport: Transport,
    metrics: Arc<Metrics>,
    /// It has been said that the collector takes nothing.
    failing: bool,
}

impl Sender {
    async fn run(mut self, mut waiting: mpsc::Receiver<Told>, drain: CancellationToken) {
        let metrics = Arc::clone(&self.metrics);
        let ending = async {
            drain.cancelled().await;
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::pin!(ending);
        while let Some(batch) = next_batch(&mut waiting).await {
            let spans = batch.len() as u64;
            tokio::select! {
                () = self.deliver(batch) => {}
                () = &mut ending => {
                    metrics.export.count(Outcome::failed, spans);
                    break;
                }
            }
        }
        // Whatever waits still, now that nothing more comes.
        while waiting.recv().await.is_some() {
            metrics.export.count(Outcome::failed, 1);
        }
    }

    async fn deliver(&mut self, batch: Vec<Told>) {
        let spans = batch.len() as u64;
        let request = batch::request(batch);
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let error = match self.transport.traces(&request).await {
                Ok(rejected) => return self.arrived(spans, rejected.min(spans)),
                Err(error) => error,
            };
            if error.again == Again::Never || attempt == ATTEMPTS {
                return self.lost(spans, &error);
            }
            self.note(&error);
            let wait = match error.again {
                Again::After(wished) => wished,
                _ => pause.mul_f64(1.0 - fastrand::f64() / 2.0),
            };
            tokio::time::sleep(wait).await;
            pause *= 2;
        }
    }

    fn arrived(&mut self, spans: u64, rejected: u64) {
        self.metrics.export.count(Outcome::rejected, rejected);
        self.metrics
            .export
            .count(Outcome::exported, spans - rejected);
        if std::mem::take(&mut self.failing) {
            tracing::info!("collector {} takes spans again", self.target);
        }
    }

    fn lost(&mut self, spans: u64, error: &SendError) {
        self.note(error);
        self.metrics.export.count(Outcome::failed, spans);
    }

    /// Once until it works again.
    fn note(&mut self, error: &SendError) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(
                "collector {} takes no spans: {error}; tried again, and what finds no room meanwhile is counted in weft_otlp_spans_total",
                self.target
            );
        }
    }
}

/// `None`: there will be no more.
async fn next_batch(waiting: &mut mpsc::Receiver<Told>) -> Option<Vec<Told>> {
    let mut batch = vec![waiting.recv().await?];
    let full = async {
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            if waiting.recv_many(&mut batch, room).await == 0 {
                return;
            }
        }
    };
    // What was received stays in the batch when time is up.
    let _ = tokio::time::timeout(LINGER, full).await;
    Some(batch)
}
