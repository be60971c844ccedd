//! Says when the kernel goes over its connections: right after a policy change, and for their age when one can be due.
//!
//! A sweep walks over all places of the tables, also the empty ones, and keeps its processor busy meanwhile: a process that has
//! become ready there waits. So there is none that could find nothing.

mod pause;

use std::io;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use pause::{Calls, Pause};

use super::Timeouts;
use crate::bpf::{Record, types};
use crate::metrics::Metrics;

/// As in `bpf/lib/age.h`.
const NEVER_NS: i64 = i64::MAX;

/// What one sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Connections looked at.
    pub entries: u32,
    /// Of these, those without an answer.
    pub pending: u32,
    /// Forgotten because of their age.
    pub expired: u32,
    /// Refused by a changed policy.
    pub revoked: u32,
    /// Translations of connections from outside, in map `nat`.
    pub nat: u32,
    /// To be closed, but there was no room to say so: sweep again.
    pub unread: u32,
    /// From the sweep on, until the first of those that stay is due if nothing comes; `None`: none will be.
    pub due: Option<Duration>,
}

impl Swept {
    /// Connections with an answer: those in map `ct`.
    #[must_use]
    pub const fn answered(&self) -> u32 {
        self.entries.saturating_sub(self.pending)
    }
}

impl Record for Swept {
    type Raw = types::sweep;

    fn to_raw(&self) -> Self::Raw {
        types::sweep {
            swept: self.entries,
            pending: self.pending,
            expired: self.expired,
            revoked: self.revoked,
            unread: self.unread,
            nat: self.nat,
            due_ns: self.due.map_or(NEVER_NS, |due| {
                i64::try_from(due.as_nanos()).unwrap_or(NEVER_NS)
            }),
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            entries: raw.swept,
            pending: raw.pending,
            expired: raw.expired,
            revoked: raw.revoked,
            unread: raw.unread,
            nat: raw.nat,
            due: (raw.due_ns != NEVER_NS)
                .then(|| Duration::from_nanos(raw.due_ns.max(0).unsigned_abs())),
        })
    }
}

/// The kernel's `weft_sweep`.
pub trait SweepProgram: Send {
    /// Goes over all connections once. Blocks for as long as that takes.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn sweep(&mut self) -> io::Result<Swept>;
}

/// The latest sweep, for status and metrics.
#[derive(Clone, Debug, Default)]
pub struct SweepReport {
    latest: Arc<Mutex<Swept>>,
    asked: Arc<Notify>,
}

impl SweepReport {
    /// What the latest sweep found. There will be another soon, so that whoever asks again learns what is new.
    #[must_use]
    pub fn latest(&self) -> Swept {
        self.asked.notify_one();
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, swept: Swept) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = swept;
    }
}

/// When to sweep, and whom to tell.
pub struct Sweeper {
    /// What sweeps.
    pub program: Box<dyn SweepProgram>,
    /// Notified after each raise of the policy epoch.
    pub changed: Arc<Notify>,
    /// No service ends a connection for its age sooner than after so many seconds.
    pub ages: watch::Receiver<Option<NonZeroU32>>,
    /// How old connections may become where no service says anything.
    pub timeouts: Timeouts,
    /// Notified when there are connections to close.
    pub closing: Arc<Notify>,
    /// Kept up to date.
    pub report: SweepReport,
    /// Kept up to date.
    pub metrics: Arc<Metrics>,
}

impl Sweeper {
    /// Sweeps until `drain` is cancelled.
    ///
    /// # Errors
    /// When the sweeping thread panicked.
    pub async fn run(self, drain: CancellationToken) -> Result<(), String> {
        let Self {
            mut program,
            changed,
            mut ages,
            timeouts,
            closing,
            report,
            metrics,
        } = self;
        let shortest = timeouts.shortest();
        let mut pause = Pause::default();
        loop {
            let calls = Calls {
                changed: &changed,
                asked: &report.asked,
                ages: &mut ages,
            };
            tokio::select! {
                () = drain.cancelled() => return Ok(()),
                () = pause.wait(calls) => {}
            }
            let sweep = tokio::task::spawn_blocking(move || {
                let start = Instant::now();
                let swept = program.sweep();
                (program, swept, start.elapsed())
            });
            let (returned, swept, took) = sweep.await.map_err(|e| e.to_string())?;
            program = returned;
            pause = match swept {
                Ok(swept) => {
                    metrics.flows.swept(took, &swept);
                    report.set(swept);
                    if swept.expired + swept.revoked + swept.unread > 0 {
                        closing.notify_one();
                    }
                    Pause::after(took, &swept, shortest)
                }
                Err(e) => {
                    tracing::warn!("connections are not swept: {e}");
                    Pause::default()
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Clone, Default)]
    struct Counted {
        sweeps: Arc<AtomicU32>,
        unread: Arc<AtomicU32>,
    }

    impl SweepProgram for Counted {
        fn sweep(&mut self) -> io::Result<Swept> {
            self.sweeps.fetch_add(1, Ordering::Relaxed);
            Ok(Swept {
                entries: 3,
                unread: self.unread.swap(0, Ordering::Relaxed),
                ..Default::default()
            })
        }
    }

    async fn until(what: &str, mut holds: impl FnMut() -> bool) {
        for _ in 0..500 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what}");
    }

    #[tokio::test]
    async fn sweeps_by_itself_and_at_once_after_a_policy_change() {
        let program = Counted::default();
        let (changed, closing) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let report = SweepReport::default();
        let drain = CancellationToken::new();
        let sweeper = Sweeper {
            program: Box::new(program.clone()),
            changed: Arc::clone(&changed),
            ages: watch::channel(None).1,
            timeouts: Timeouts::default(),
            closing: Arc::clone(&closing),
            report: report.clone(),
            metrics: Arc::new(Metrics::new()),
        };
        let task = tokio::spawn(sweeper.run(drain.clone()));
        let sweeps = || program.sweeps.load(Ordering::Relaxed);
        until("it sweeps by itself", || sweeps() >= 1).await;
        until("it tells", || report.latest().entries == 3).await;

        let before = sweeps();
        changed.notify_one();
        until("a change is swept for", || sweeps() > before).await;

        program.unread.store(1, Ordering::Relaxed);
        let before = sweeps();
        changed.notify_one();
        until("again for those without room", || sweeps() > before + 1).await;
        closing.notified().await;
        drain.cancel();
        task.await.expect("no panic").expect("ends in order");
    }
}
