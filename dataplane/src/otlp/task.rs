//! From the log of flows to the collector.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::batch::{Batch, Spare};
use super::budget::Budget;
use super::bursts::Bursts;
use super::counts::{Outcome, Tally};
use super::ids::Role;
use super::reached::Reached;
use super::report::{Gather, Reporter};
use super::requests::{Joined, Requests};
use super::sampling::Sampling;
use super::span::Frame;
use super::target::{Header, Target};
use super::template::Templates;
use super::transport::{Again, SendError, Transport};
use crate::flow::{Chunk, EventKind, FlowLog, NamedEvent};
use crate::metrics::Metrics;

/// Batches that wait for the collector: 8,192 spans, about 1.5 KiB each.
const QUEUE: usize = 16;
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
    let spare = Spare::default();
    let reporter = Reporter {
        node: node.clone(),
        every: config.metrics_interval,
        transport: transport.clone(),
        metrics: Arc::clone(&metrics),
        gather: gather.clone(),
    };
    let feeder = Feeder {
        node,
        reached: Reached::new(&config.sampling),
        sampling: Arc::new(config.sampling),
        budget: Budget::new(config.bytes_per_second, Instant::now()),
        templates: Templates::default(),
        own: Vec::new(),
        open: Batch::new(&spare),
        spare: spare.clone(),
        tally: Tally::default(),
        queue,
        metrics: Arc::clone(&metrics),
        requests: Requests::default(),
        bursts: Bursts::default(),
    };
    let sender = Sender {
        target: config.target,
        transport,
        metrics,
        spare,
        failing: false,
    };
    let (feeding, reporting) = (drain.clone(), drain.clone());
    tokio::join!(
        feeder.run(log, requests, gather, feeding),
        reporter.run(reporting),
        sender.run(waiting, drain)
    );
    Ok(())
}

/// Makes spans, encodes them into batches, and waits for nobody.
struct Feeder {
    node: String,
    sampling: Arc<Sampling>,
    reached: Reached,
    budget: Budget,
    templates: Templates,
    /// What a span has for itself, encoded: written over for each.
    own: Vec<u8>,
    open: Batch,
    spare: Spare,
    tally: Tally,
    queue: mpsc::Sender<Batch>,
    metrics: Arc<Metrics>,
    requests: Requests,
    bursts: Bursts,
}

impl Feeder {
    async fn run(
        mut self,
        log: FlowLog,
        mut spans: mpsc::Receiver<Span>,
        gather: impl Gather,
        drain: CancellationToken,
    ) {
        let (_, mut cursor) = log.follow();
        let mut due = tokio::time::Instant::now();
        loop {
            let request_due = self.requests.next();
            let chunk = tokio::select! {
                biased;
                () = drain.cancelled() => break,
                () = tokio::time::sleep_until(due), if !self.open.is_empty() => {
                    self.hand_over();
                    due = tokio::time::Instant::now() + LINGER;
                    continue;
                }
                () = sleep_until(request_due) => Chunk::default(),
                chunk = cursor.next() => chunk,
                Some(span) = spans.recv() => {
                    let joined = self.requests.take(span, Instant::now());
                    self.tell_request(joined);
                    Chunk::default()
                }
            };
            if self.open.is_empty() {
                due = tokio::time::Instant::now() + LINGER;
            }
            self.metrics.export.overtaken(chunk.lost);
            self.reached.refresh(&gather, Instant::now()).await;
            for named in chunk.flows.iter() {
                self.requests.remember(named);
                self.tell(named);
            }
            self.tell_requests(&mut spans);
            self.metrics.export.add(&mut self.tally);
            // A flood must not keep this thread from its other tasks.
            tokio::task::yield_now().await;
        }
        spans.close();
        while !spans.is_empty() {
            self.tell_requests(&mut spans);
        }
        while let Some(joined) = self.requests.last() {
            self.tell_request(Some(joined));
        }
        self.hand_over();
        let left = self.open.len() as u64;
        self.metrics.export.count(Outcome::failed, left);
    }

    /// Of those that have come, and of those that have waited for their connections: many flows must not keep them.
    fn tell_requests(&mut self, spans: &mut mpsc::Receiver<Span>) {
        let now = Instant::now();
        for _ in 0..BATCH {
            let Ok(span) = spans.try_recv() else { break };
            let joined = self.requests.take(span, now);
            self.tell_request(joined);
        }
        while let Some(joined) = self.requests.due(now) {
            self.tell_request(Some(joined));
        }
    }

    fn tell_request(&mut self, joined: Option<Joined>) {
        if let Some(Err(outcome)) = joined.map(|joined| self.add_request(&joined)) {
            self.tally.count(outcome);
        }
    }

    fn tell(&mut self, named: &NamedEvent) {
        if named.event.kind == EventKind::Retransmitted {
            self.bursts.remember(named);
        }
        let Some(mut frame) = Frame::new(named, &self.node) else {
            self.tally.nothing += 1;
            return;
        };
        if named.event.retransmits > 0 {
            frame.bursts = self.bursts.take(frame.trace);
        }
        self.tally.spans += 1;
        let sampling = Arc::clone(&self.sampling);
        let chosen = self.choose(&frame, &sampling);
        for role in frame.roles {
            if let Err(outcome) = chosen.and_then(|state| self.add(&frame, *role, state)) {
                self.tally.count(outcome);
            }
        }
    }

    /// The trace state of what is traced.
    fn choose<'s>(&self, frame: &Frame<'_>, sampling: &'s Sampling) -> Result<&'s str, Outcome> {
        if frame.urgent {
            return Ok("");
        }
        let named = frame.named();
        let service = self.reached.service(named);
        let workload = if sampling.by_workload() {
            let to = named.destination();
            format!("{}/{}", to.namespace, to.workload)
        } else {
            String::new()
        };
        let state = sampling.decide(frame.trace, service, &workload);
        state.ok_or(Outcome::sampled_out)
    }

    fn add(&mut self, frame: &Frame<'_>, role: Role, state: &str) -> Result<(), Outcome> {
        if self.open.len() >= BATCH && !self.hand_over() {
            return Err(Outcome::queue_full);
        }
        frame.own(role, state, &mut self.own);
        let common = self.templates.of(frame, role);
        if self.budget.is_bounded() {
            let bytes = common.len() + self.own.len();
            if !self.budget.take(bytes, frame.urgent, Instant::now()) {
                return Err(Outcome::over_budget);
            }
        }
        self.open.put(frame.of(role), common, &self.own);
        Ok(())
    }

    /// A request, whose share Envoy has chosen.
    fn add_request(&mut self, joined: &Joined) -> Result<(), Outcome> {
        if self.open.len() >= BATCH && !self.hand_over() {
            return Err(Outcome::queue_full);
        }
        let span = joined.span.encode_to_vec();
        if self.budget.is_bounded() && !self.budget.take(span.len(), joined.urgent, Instant::now())
        {
            return Err(Outcome::over_budget);
        }
        self.open.put(&joined.of, &[], &span);
        Ok(())
    }

    /// False: the queue is full, and the batch stays.
    fn hand_over(&mut self) -> bool {
        // Nothing is exported that was not looked at, in whatever order both are read.
        self.metrics.export.add(&mut self.tally);
        match self.queue.try_reserve() {
            Ok(room) if !self.open.is_empty() => {
                let next = Batch::new(&self.spare);
                room.send(std::mem::replace(&mut self.open, next));
                true
            }
            Ok(_) => true,
            Err(_) => false,
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
    spare: Spare,
    /// It has been said that the collector takes nothing.
    failing: bool,
}

impl Sender {
    async fn run(mut self, mut waiting: mpsc::Receiver<Batch>, drain: CancellationToken) {
        let metrics = Arc::clone(&self.metrics);
        let ending = async {
            drain.cancelled().await;
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::pin!(ending);
        while let Some(batch) = waiting.recv().await {
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
        while let Some(batch) = waiting.recv().await {
            metrics.export.count(Outcome::failed, batch.len() as u64);
        }
    }

    async fn deliver(&mut self, batch: Batch) {
        let spans = batch.len() as u64;
        let request = batch.encode();
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let error = match self.transport.traces(request.clone()).await {
                Ok(rejected) => {
                    self.spare.recover(request);
                    return self.arrived(spans, rejected.min(spans));
                }
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
