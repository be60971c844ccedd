//! Says when the kernel goes over its connections: right after a policy change, and from time to time for their age.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::bpf::{Record, types};
use crate::metrics::Metrics;

/// Between two sweeps while they are quick: expiry is at most this late.
const EVERY: Duration = Duration::from_secs(1);
/// However large the table is, it is looked at this often.
const AT_LEAST_EVERY: Duration = Duration::from_secs(60);
/// Periodic sweeps rest this many times as long as they ran: 2 % of a core.
const REST: u32 = 49;
/// Sweeps for policy changes rest this many times as long as they ran, when changes come one after the other...
const REST_AFTER_CHANGE: u32 = 4;
/// ...but never so long that a revoked connection would live for a second.
const REST_AFTER_CHANGE_AT_MOST: Duration = Duration::from_millis(500);
/// Connections that found no room in `closing_flows` are swept again after the closer had this long.
const CLOSER_NEEDS: Duration = Duration::from_millis(50);

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
}

impl SweepReport {
    /// What the latest sweep found.
    #[must_use]
    pub fn latest(&self) -> Swept {
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
            closing,
            report,
            metrics,
        } = self;
        let mut pause = Pause::default();
        loop {
            tokio::select! {
                () = drain.cancelled() => return Ok(()),
                () = pause.wait(&changed) => {}
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
                    Pause::after(took, &swept)
                }
                Err(e) => {
                    tracing::warn!("connections are not swept: {e}");
                    Pause::default()
                }
            };
        }
    }
}

/// How long to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    /// In any case.
    least: Duration,
    /// After that, if nothing changes.
    more: Duration,
}

impl Default for Pause {
    fn default() -> Self {
        Self {
            least: Duration::ZERO,
            more: EVERY,
        }
    }
}

impl Pause {
    fn after(took: Duration, swept: &Swept) -> Self {
        if swept.unread > 0 {
            return Self {
                least: CLOSER_NEEDS,
                more: Duration::ZERO,
            };
        }
        let least = (took * REST_AFTER_CHANGE).min(REST_AFTER_CHANGE_AT_MOST);
        let rest = (took * REST).clamp(EVERY, AT_LEAST_EVERY);
        Self {
            least,
            more: rest.saturating_sub(least),
        }
    }

    async fn wait(&self, changed: &Notify) {
        tokio::time::sleep(self.least).await;
        // A change meanwhile has left its permit here.
        let _ = tokio::time::timeout(self.more, changed.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn small_tables_are_swept_every_second_and_large_ones_take_2_percent() {
        let nothing = Swept::default();
        let whole = |took| {
            let pause = Pause::after(took, &nothing);
            pause.least + pause.more
        };
        assert_eq!(whole(Duration::from_millis(1)), EVERY);
        assert_eq!(
            whole(Duration::from_millis(100)),
            Duration::from_millis(4_900)
        );
        assert_eq!(whole(Duration::from_secs(5)), AT_LEAST_EVERY);
        let slow = Pause::after(Duration::from_millis(300), &nothing);
        assert_eq!(slow.least, REST_AFTER_CHANGE_AT_MOST);
    }

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
            closing: Arc::clone(&closing),
            report: report.clone(),
            metrics: Arc::new(Metrics::new()),
        };
        let task = tokio::spawn(sweeper.run(drain.clone()));
        let sweeps = || program.sweeps.load(Ordering::Relaxed);
        until("it sweeps by itself", || sweeps() >= 1).await;
        until("it tells", || report.latest().entries == 3).await;

        let (before, start) = (sweeps(), Instant::now());
        changed.notify_one();
        until("a change is swept for", || sweeps() > before).await;
        assert!(start.elapsed() < EVERY / 2, "{:?}", start.elapsed());

        program.unread.store(1, Ordering::Relaxed);
        let before = sweeps();
        changed.notify_one();
        until("again for those without room", || sweeps() > before + 1).await;
        closing.notified().await;
        drain.cancel();
        task.await.expect("no panic").expect("ends in order");
    }
}
