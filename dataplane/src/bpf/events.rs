//! The ring `events`, read by a thread of its own.

use std::io;
use std::thread;
use std::time::Duration;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::abi::from_bytes;
use super::types;
use crate::flow::{Event, EventSource};

/// How long the reader sleeps at most before it looks whether it is to end.
const LOOK_UP: Duration = Duration::from_millis(200);
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
        sink: mpsc::Sender<Event>,
        drain: CancellationToken,
    ) -> io::Result<()> {
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.map, move |bytes| deliver(bytes, &sink))
            .map_err(io::Error::other)?;
        let ring = builder.build().map_err(io::Error::other)?;
        thread::Builder::new()
            .name("weft-events".to_owned())
            .spawn(move || read(&ring, &drain))?;
        Ok(())
    }
}

fn read(ring: &RingBuffer<'_>, drain: &CancellationToken) {
    while !drain.is_cancelled() {
        if let Err(e) = ring.poll(LOOK_UP) {
            if e.kind() == libbpf_rs::ErrorKind::Interrupted {
                continue;
            }
            // The receiver notices by the end of the channel.
            tracing::debug!("the reader of events ends: {e}");
            return;
        }
    }
}

/// Waits for room: meanwhile the ring fills, and the kernel counts what it cannot hold.
fn deliver(bytes: &[u8], sink: &mpsc::Sender<Event>) -> i32 {
    let Some(event) = from_bytes::<types::event>(bytes).and_then(|raw| Event::from_raw(&raw))
    else {
        return 0;
    };
    match sink.blocking_send(event) {
        Ok(()) => 0,
        Err(_) => STOP,
    }
}
