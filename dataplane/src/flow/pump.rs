//! From the kernel's ring to the log: batches of events get their names from the engine.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Clock, Event, FlowLog, enrich};
use crate::engine::worker::EngineHandle;
use crate::metrics::Metrics;

/// Events read and not yet named. When they are this many the reader stops, and what the kernel's ring cannot hold it counts.
const QUEUE: usize = 4_096;
/// Named in one visit to the engine, which updates wait for: about half a millisecond.
const BATCH: usize = 256;

/// Where events come from.
pub trait EventSource: Send {
    /// Starts a thread that sends every event, in order, until `drain` is cancelled or nobody receives.
    ///
    /// # Errors
    /// When the ring cannot be opened or no thread be started.
    fn start(
        self: Box<Self>,
        sink: mpsc::Sender<Event>,
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
    let (sink, mut events) = mpsc::channel(QUEUE);
    source
        .start(sink, drain.clone())
        .map_err(|e| format!("reading events: {e}"))?;
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let received = tokio::select! {
            () = drain.cancelled() => return Ok(()),
            received = events.recv_many(&mut batch, BATCH) => received,
        };
        if received == 0 {
            return Err("the reader of events has ended".to_owned());
        }
        for event in &batch {
            metrics.flows.count(event);
        }
        let events = std::mem::take(&mut batch);
        let clock = Clock::now();
        let named = engine
            .query(move |engine| {
                let name = |event| enrich(event, engine, &clock);
                events.iter().map(name).collect::<Vec<_>>()
            })
            .await
            .map_err(|e| e.to_string())?;
        log.extend(named);
    }
}
