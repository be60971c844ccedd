//! From the kernel's ring to the log: batches of events get their names from the engine.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Clock, Event, FlowLog, JudgedRequest, Namer, Names};
use crate::engine::worker::EngineHandle;
use crate::metrics::Metrics;

/// Events that are read, and later named, at a time: named in one visit to the engine, which updates wait for, about half a
/// millisecond.
pub const BATCH: usize = 1_024;
/// Batches read and not yet named. When they are this many the reader stops, and what the kernel's ring cannot hold it counts.
const QUEUE: usize = 4;

/// Where events come from.
pub trait EventSource: Send {
    /// Starts a thread that sends every event, in order and in batches of at most [`BATCH`], until `drain` is cancelled or nobody
    /// receives.
    ///
    /// # Errors
    /// When the ring cannot be opened or no thread be started.
    fn start(
        self: Box<Self>,
        sink: mpsc::Sender<Vec<Event>>,
        drain: CancellationToken,
    ) -> std::io::Result<()>;
}

/// Reads `source`, and what Envoy has judged, into `log` until `drain` is cancelled.
///
/// # Errors
/// When the source cannot be started, or ends, or the engine has stopped.
pub async fn pump(
    source: Box<dyn EventSource>,
    mut requests: mpsc::Receiver<JudgedRequest>,
    engine: EngineHandle,
    log: FlowLog,
    metrics: Arc<Metrics>,
    drain: CancellationToken,
) -> Result<(), String> {
    let (sink, mut batches) = mpsc::channel(QUEUE);
    source
        .start(sink, drain.clone())
        .map_err(|e| format!("reading events: {e}"))?;
    let mut namer = Namer::default();
    let mut judged = Vec::new();
    loop {
        let batch: Vec<Event> = tokio::select! {
            // The source ends with the drain: that is no failure.
            biased;
            () = drain.cancelled() => return Ok(()),
            batch = batches.recv() => batch.ok_or("the reader of events has ended")?,
            taken = requests.recv_many(&mut judged, BATCH), if !requests.is_closed() || !requests.is_empty() => {
                tracing::trace!("{taken} requests were judged");
                Vec::new()
            }
        };
        metrics.flows.count(&batch);
        let told: Vec<Event> = judged.iter().map(|judged| judged.event).collect();
        metrics.flows.count(&told);
        let clock = Clock::now();
        let requests = std::mem::take(&mut judged);
        let named = engine
            .query(move |engine| {
                namer.renew(engine.generation());
                let events = batch.into_iter();
                let mut named: Vec<_> = events.map(|e| namer.name(e, engine, &clock)).collect();
                named.extend(requests.into_iter().map(|judged| {
                    let isolating = engine.isolating(judged.event.destination.ip());
                    judged.named(isolating, &mut namer, engine, &clock)
                }));
                (namer, named)
            })
            .await
            .map_err(|e| e.to_string())?;
        namer = named.0;
        metrics.workloads.count(&named.1);
        log.add(named.1);
    }
}
