//! A kernel side in memory, which tells of connections what a test wants.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Event, EventSource};
use crate::check::{CheckProgram, Judged, Packet};
use crate::conntrack::{Capacity, Connection, ConnectionSource, SweepProgram, Swept};
use crate::datapath::Observation;

/// Connections it has room for, to those who ask.
const CAPACITY: usize = 1_000;

/// What the kernel is to tell. Clones share it.
#[derive(Clone)]
pub struct MemoryKernel {
    events: mpsc::UnboundedSender<Event>,
    waiting: Arc<Mutex<Option<mpsc::UnboundedReceiver<Event>>>>,
    connections: Arc<Mutex<Vec<Connection>>>,
    judge: Arc<dyn Fn(&Packet) -> Judged + Send + Sync>,
}

impl MemoryKernel {
    /// No events, no connections; packets are judged as `judge` says.
    #[must_use]
    pub fn new(judge: impl Fn(&Packet) -> Judged + Send + Sync + 'static) -> Self {
        let (events, waiting) = mpsc::unbounded_channel();
        Self {
            events,
            waiting: Arc::new(Mutex::new(Some(waiting))),
            connections: Arc::default(),
            judge: Arc::new(judge),
        }
    }

    /// Something happens.
    pub fn emit(&self, event: Event) {
        // Nobody reads: as in the kernel, nobody is told.
        let _ = self.events.send(event);
    }

    /// These are the connections from now on.
    pub fn set_connections(&self, connections: Vec<Connection>) {
        *self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = connections;
    }

    /// As the agent sees it.
    #[must_use]
    pub fn observation(&self) -> Observation {
        Observation {
            events: Box::new(self.clone()),
            connections: Arc::new(self.clone()),
            sweep: Box::new(self.clone()),
            check: Arc::new(self.clone()),
        }
    }
}

impl EventSource for MemoryKernel {
    fn start(
        self: Box<Self>,
        sink: mpsc::Sender<Vec<Event>>,
        drain: CancellationToken,
    ) -> io::Result<()> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = waiting.take().ok_or(io::ErrorKind::AlreadyExists)?;
        drop(waiting);
        tokio::spawn(async move {
            while let Some(Some(event)) = drain.run_until_cancelled(events.recv()).await {
                if sink.send(vec![event]).await.is_err() {
                    return;
                }
            }
        });
        Ok(())
    }
}

impl ConnectionSource for MemoryKernel {
    fn each(&self, take: &mut dyn FnMut(Connection) -> bool) {
        let connections = self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // As the kernel would, until somebody has enough.
        let _ = connections.iter().all(|connection| take(*connection));
    }

    fn capacity(&self) -> Capacity {
        Capacity {
            tracked: CAPACITY,
            nat: 0,
        }
    }
}

impl SweepProgram for MemoryKernel {
    fn sweep(&mut self) -> io::Result<Swept> {
        let entries = self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len();
        Ok(Swept {
            entries: u32::try_from(entries).unwrap_or(u32::MAX),
            ..Default::default()
        })
    }
}

impl CheckProgram for MemoryKernel {
    fn check(&self, packet: &Packet) -> io::Result<Judged> {
        Ok((self.judge)(packet))
    }
}
