//! Closes the connections of backends that went away, so that applications get an error at once instead of silence.
//!
//! One pass: iterators over what sockets remember find those with a backend of map `closing`, in whichever network namespace
//! ([`find`]); then each namespace that has any is entered and its sockets are destroyed, by
//! `bpf_sock_destroy` where the kernel has it (Linux 6.5), else by `SOCK_DESTROY` over netlink ([`destroy`]).
//!
//! A socket whose connect was under way during the change remembers its backend before it can be found in its namespace:
//! passes are repeated for a while.
//!
//! Connections that a policy forbids, or that are too old, are closed in the same way by [`FlowCloser`].

mod destroy;
mod find;
mod flows;
mod netlink;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

pub use destroy::Destroyer;
pub use find::{ClosingSocket, Finder};
pub use flows::{ClosingFlow, FlowCloser};
pub(crate) use netlink::probe as probe_netlink;

use crate::tables::{BackendId, Table};

/// How long after its removal a backend's sockets are looked for.
const WATCH: Duration = Duration::from_secs(2);
/// Passes come at these times after a removal.
const PASSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    WATCH,
];
/// At most so often, however many backends go: removals between passes share one.
const PAUSE: Duration = Duration::from_millis(10);

/// Where the engine leaves the backends whose connections have to end. Never blocks.
#[derive(Clone)]
pub struct Closer {
    requests: Sender<Vec<BackendId>>,
    failures: Arc<AtomicU64>,
}

impl Closer {
    /// Starts the closing thread; it ends when the last `Closer` is dropped and its work is done.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        closing: Box<dyn Table<BackendId, u8>>,
        finder: Finder,
        destroyer: Destroyer,
    ) -> std::io::Result<Self> {
        let (requests, queue) = mpsc::channel();
        let failures = Arc::new(AtomicU64::new(0));
        let worker = Worker {
            closing,
            finder,
            destroyer,
            since: HashMap::new(),
            last_pass: None,
            failures: Arc::clone(&failures),
        };
        thread::Builder::new()
            .name("close".into())
            .spawn(move || worker.run(&queue))?;
        Ok(Self { requests, failures })
    }

    /// Closes all connections to these backends, soon.
    pub fn close(&self, backends: Vec<BackendId>) {
        // The thread ends only after the last sender; if it died, the next agent starts with a clean slate.
        let _ = self.requests.send(backends);
    }

    /// Passes that failed in part: sockets may have been left open.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

struct Worker {
    closing: Box<dyn Table<BackendId, u8>>,
    finder: Finder,
    destroyer: Destroyer,
    /// When each backend was removed, and how many passes it has had.
    since: HashMap<BackendId, (Instant, usize)>,
    last_pass: Option<Instant>,
    failures: Arc<AtomicU64>,
}

impl Worker {
    fn run(mut self, queue: &Receiver<Vec<BackendId>>) {
        self.forget_earlier_agents();
        loop {
            match queue.recv_timeout(self.until_next_pass()) {
                Ok(backends) => {
                    self.add(backends);
                    queue.try_iter().for_each(|more| self.add(more));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if self.since.is_empty() => return,
                Err(RecvTimeoutError::Disconnected) => thread::sleep(self.until_next_pass()),
            }
            self.pass();
        }
    }

    /// What an agent killed during a pass has left: its removals are repeated by nobody, so close them now.
    fn forget_earlier_agents(&mut self) {
        match self.closing.entries() {
            Ok(entries) => self.add(entries.into_iter().map(|(id, _)| id).collect()),
            Err(e) => tracing::warn!("{e}"),
        }
    }

    fn add(&mut self, backends: Vec<BackendId>) {
        let entries: Vec<_> = backends.iter().map(|id| (*id, 1)).collect();
        if let Err(e) = self.closing.write(&entries) {
            self.failed(&e.to_string());
        }
        let now = Instant::now();
        self.since
            .extend(backends.into_iter().map(|id| (id, (now, 0))));
    }

    fn until_next_pass(&self) -> Duration {
        self.since
            .values()
            .map(|(removed, done)| {
                let due = PASSES.get(*done).copied().unwrap_or(WATCH);
                due.saturating_sub(removed.elapsed()).max(PAUSE)
            })
            .min()
            // Nothing to do: wake up only for requests.
            .unwrap_or(Duration::from_secs(3600))
    }

    fn pass(&mut self) {
        if self.since.is_empty() {
            return;
        }
        if let Some(last) = self.last_pass {
            thread::sleep(PAUSE.saturating_sub(last.elapsed()));
        }
        self.last_pass = Some(Instant::now());
        match self.finder.find() {
            Ok(found) => {
                for error in self.destroyer.destroy(&found) {
                    self.failed(&error.to_string());
                }
            }
            Err(e) => self.failed(&e.to_string()),
        }
        self.advance();
    }

    /// Counts the pass for each backend, and lets go of those that were watched for long enough.
    fn advance(&mut self) {
        let mut done = Vec::new();
        self.since.retain(|id, (removed, passes)| {
            let age = removed.elapsed();
            *passes = PASSES.iter().filter(|due| **due <= age).count();
            let keep = *passes < PASSES.len();
            if !keep {
                done.push(*id);
            }
            keep
        });
        if let Err(e) = self.closing.delete(&done) {
            self.failed(&e.to_string());
        }
    }

    fn failed(&self, reason: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("connections of a removed backend may stay open: {reason}");
    }
}
