//! The ring `events`, read by a thread of its own.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::abi::from_bytes;
use super::types;
use crate::flow::{BATCH, Event, EventSource};

/// Between two looks. The kernel wakes nobody: with one wake-up for each connection, connections would cost twice what they do. What
/// the ring holds by default is 20,000 events.
const PAUSE: Duration = Duration::from_millis(50);
/// What the callback returns to stop reading; the ring's reader takes any negative number.
const STOP: i32 = -1;

/// The kernel's events.
pub struct Events {
    map: MapHandle,
}

impl Events {
    pub(super) const fn new(map: MapHandle) -> Self {
        Self { map }
    }
}

impl EventSource for Events {
    fn start(
        self: Box<Self>,
        sink: mpsc::Sender<Vec<Event>>,
        drain: CancellationToken,
    ) -> io::Result<()> {
        let batch = Arc::new(Mutex::new(Batch {
            events: Vec::with_capacity(BATCH),
            sink,
        }));
        let reader = Arc::clone(&batch);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.map, move |bytes| lock(&reader).take(bytes))
            .map_err(io::Error::other)?;
        let ring = builder.build().map_err(io::Error::other)?;
        thread::Builder::new()
            .name("weft-events".to_owned())
            .spawn(move || read(&ring, &batch, &drain))?;
        Ok(())
    }
}

fn read(ring: &RingBuffer<'_>, batch: &Mutex<Batch>, drain: &CancellationToken) {
    while !drain.is_cancelled() {
        let read = ring.consume();
        // The receiver notices by the end of the channel.
        if let Err(e) = read {
            tracing::debug!("the reader of events ends: {e}");
            return;
        }
        if !lock(batch).send() {
            return;
        }
        thread::sleep(PAUSE);
    }
}

fn lock(batch: &Mutex<Batch>) -> MutexGuard<'_, Batch> {
    batch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Events on their way to whoever names them.
struct Batch {
    events: Vec<Event>,
    sink: mpsc::Sender<Vec<Event>>,
}

impl Batch {
    fn take(&mut self, bytes: &[u8]) -> i32 {
        let event = from_bytes::<types::event>(bytes).and_then(|raw| Event::from_raw(&raw));
        self.events.extend(event);
        if self.events.len() < BATCH || self.send() {
            return 0;
        }
        STOP
    }

    /// Waits for room: meanwhile the ring fills, and the kernel counts what it cannot hold. False: nobody receives.
    fn send(&mut self) -> bool {
        if self.events.is_empty() {
            return !self.sink.is_closed();
        }
        let events = std::mem::replace(&mut self.events, Vec::with_capacity(BATCH));
        self.sink.blocking_send(events).is_ok()
    }
}
