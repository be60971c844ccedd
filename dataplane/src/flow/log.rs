//! The newest flows, for those who ask what was and for those who follow what is.
//!
//! A follower is a place in this one ring: it costs no memory of its own, waits for nobody, and if the ring has gone round
//! before it came, it is told how many it missed.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::NamedEvent;

/// Taken from the ring at a time, so that writers wait for readers only briefly.
const CHUNK: usize = 256;

/// The newest flows in order. Clones share them.
#[derive(Clone, Debug)]
pub struct FlowLog {
    ring: Arc<Mutex<Ring>>,
    end: Arc<watch::Sender<u64>>,
}

#[derive(Debug)]
struct Ring {
    flows: VecDeque<NamedEvent>,
    capacity: usize,
    /// Number of the first one in `flows`; every flow has the next number.
    first: u64,
}

impl Ring {
    fn end(&self) -> u64 {
        self.first + self.flows.len() as u64
    }
}

/// What a [`Cursor`] finds.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Flows that were forgotten before this reader came to them.
    pub lost: u64,
    /// Oldest first.
    pub flows: Vec<NamedEvent>,
}

/// A reader's place.
#[derive(Debug)]
pub struct Cursor {
    log: FlowLog,
    next: u64,
    end: watch::Receiver<u64>,
}

impl FlowLog {
    /// Remembers `capacity` flows.
    #[must_use]
    pub fn new(capacity: NonZeroUsize) -> Self {
        Self {
            ring: Arc::new(Mutex::new(Ring {
                flows: VecDeque::new(),
                capacity: capacity.get(),
                first: 0,
            })),
            end: Arc::new(watch::Sender::new(0)),
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds flows in order, and forgets the oldest beyond the capacity.
    pub fn extend(&self, flows: impl IntoIterator<Item = NamedEvent>) {
        let mut ring = self.ring();
        for flow in flows {
            if ring.flows.len() == ring.capacity {
                ring.flows.pop_front();
                ring.first += 1;
            }
            ring.flows.push_back(flow);
        }
        let end = ring.end();
        drop(ring);
        self.end.send_replace(end);
    }

    /// All that is remembered now, oldest first.
    #[must_use]
    pub fn snapshot(&self) -> Vec<NamedEvent> {
        self.ring().flows.iter().cloned().collect()
    }

    /// As [`FlowLog::snapshot`], with a reader of exactly what comes after it.
    #[must_use]
    pub fn follow(&self) -> (Vec<NamedEvent>, Cursor) {
        let end = self.end.subscribe();
        let ring = self.ring();
        let cursor = Cursor {
            log: self.clone(),
            next: ring.end(),
            end,
        };
        (ring.flows.iter().cloned().collect(), cursor)
    }
}

impl Cursor {
    /// What has come since; waits until there is something.
    pub async fn next(&mut self) -> Chunk {
        loop {
            let chunk = self.take();
            if chunk.lost > 0 || !chunk.flows.is_empty() {
                return chunk;
            }
            let next = self.next;
            if self.end.wait_for(|end| *end > next).await.is_err() {
                // The sender lives in our own log.
                std::future::pending::<()>().await;
            }
        }
    }

    fn take(&mut self) -> Chunk {
        let ring = self.log.ring();
        let lost = ring.first.saturating_sub(self.next);
        let from = self.next.max(ring.first);
        let skip = usize::try_from(from - ring.first).unwrap_or(usize::MAX);
        let flows: Vec<_> = ring.flows.iter().skip(skip).take(CHUNK).cloned().collect();
        drop(ring);
        self.next = from + flows.len() as u64;
        Chunk { lost, flows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::fake::Fake;
    use crate::flow::tests::event;
    use crate::flow::{Clock, EventKind, Namer, Reason};

    fn log(capacity: usize) -> FlowLog {
        FlowLog::new(NonZeroUsize::new(capacity).expect("not zero"))
    }

    fn numbered(range: std::ops::Range<u64>) -> impl Iterator<Item = NamedEvent> {
        let event = event(EventKind::Open, Reason::REASON_NONE);
        let clock = Clock::fixed(0, 0);
        let one = Namer::default().name(event, &Fake::new(), &clock);
        range.map(move |n| NamedEvent {
            time_unix_nano: n,
            ..one.clone()
        })
    }

    fn numbers(flows: &[NamedEvent]) -> Vec<u64> {
        flows.iter().map(|flow| flow.time_unix_nano).collect()
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let log = log(3);
        log.extend(numbered(0..5));
        assert_eq!(numbers(&log.snapshot()), [2, 3, 4]);
    }

    #[tokio::test]
    async fn a_follower_sees_each_once_and_in_order() {
        let log = log(1_000);
        log.extend(numbered(0..3));
        let (before, mut cursor) = log.follow();
        assert_eq!(numbers(&before), [0, 1, 2]);
        let reader = tokio::spawn(async move {
            let mut seen = Vec::new();
            while seen.len() < 600 {
                let chunk = cursor.next().await;
                assert_eq!(chunk.lost, 0);
                seen.extend(numbers(&chunk.flows));
            }
            seen
        });
        for start in (3..603).step_by(100) {
            log.extend(numbered(start..start + 100));
            tokio::task::yield_now().await;
        }
        let seen = reader.await.expect("no panic");
        assert_eq!(seen, (3..603).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_slow_follower_is_told_how_many_it_missed() {
        let log = log(10);
        let (_, mut cursor) = log.follow();
        log.extend(numbered(0..25));
        let chunk = cursor.next().await;
        assert_eq!(
            (chunk.lost, numbers(&chunk.flows)),
            (15, (15..25).collect())
        );
        log.extend(numbered(25..26));
        let chunk = cursor.next().await;
        assert_eq!((chunk.lost, numbers(&chunk.flows)), (0, vec![25]));
    }
}
