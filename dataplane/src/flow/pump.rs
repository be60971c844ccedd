//! From the kernel's ring to the log: batches of events get their names from the engine.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Clock, Event, FlowLog, Namer, Names};
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

/// Reads `source` into `log` until `drain` is cancelled.
///
/// # Errors
/// When the source cannot be started, or ends, or the engine has stopped.
pub async fn pump(
    source: Box<dyn EventSource>,
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
    loop {
        let batch: Vec<Event> = tokio::select! {
            // The source ends with the drain: that is no failure.
            biased;
            () = drain.cancelled() => return Ok(()),
            batch = batches.recv() => batch.ok_or("the reader of events has ended")?,
        };
        metrics.flows.count(&batch);
        let clock = Clock::now();
        let named = engine
            .query(move |engine| {
                namer.renew(engine.generation());
                let events = batch.into_iter();
                let named: Vec<_> = events.map(|e| namer.name(e, engine, &clock)).collect();
                (namer, named)
            })
            .await
            .map_err(|e| e.to_string())?;
        namer = named.0;
        metrics.workloads.count(&named.1);
        log.extend(named.1);
    }
}
