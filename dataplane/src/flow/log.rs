//! The newest flows, for those who ask what was and for those who follow what is.
//!
//! They stay in the batches in which they came, and readers share those: a follower is a place in this one ring, costs no memory of its
//! own, copies nothing and waits for nobody. If the ring has gone round before it came, it is told how many it missed.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::NamedEvent;

/// The newest flows in order. Clones share them.
#[derive(Clone, Debug)]
pub struct FlowLog {
    ring: Arc<Mutex<Ring>>,
    end: Arc<watch::Sender<u64>>,
}

#[derive(Debug)]
struct Ring {
    batches: VecDeque<Batch>,
    capacity: u64,
    /// Number of the next flow: every flow has the next number.
    end: u64,
}

#[derive(Debug)]
struct Batch {
    /// Number of its first flow.
    start: u64,
    flows: Arc<Vec<NamedEvent>>,
}

impl Batch {
    fn end(&self) -> u64 {
        self.start + self.flows.len() as u64
    }

    /// Those from number `from` on.
    fn since(&self, from: u64) -> Flows {
        let skip = usize::try_from(from.saturating_sub(self.start)).unwrap_or(usize::MAX);
        Flows {
            batch: Arc::clone(&self.flows),
            skip: skip.min(self.flows.len()),
        }
    }
}

impl Ring {
    /// Number of the oldest flow that is remembered.
    fn first(&self) -> u64 {
        let oldest = self.batches.front().map_or(self.end, |batch| batch.start);
        oldest.max(self.end.saturating_sub(self.capacity))
    }

    fn add(&mut self, flows: Vec<NamedEvent>) {
        let batch = Batch {
            start: self.end,
            flows: Arc::new(flows),
        };
        self.end = batch.end();
        self.batches.push_back(batch);
        let first = self.first();
        while self.batches.front().is_some_and(|b| b.end() <= first) {
            self.batches.pop_front();
        }
    }

    fn all(&self) -> Vec<Flows> {
        let first = self.first();
        self.batches.iter().map(|b| b.since(first)).collect()
    }
}

/// Flows that came together, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    batch: Arc<Vec<NamedEvent>>,
    /// So many of them are forgotten, or were read before.
    skip: usize,
}

impl Deref for Flows {
    type Target = [NamedEvent];

    fn deref(&self) -> &[NamedEvent] {
        self.batch.get(self.skip..).unwrap_or_default()
    }
}

/// What a [`Cursor`] finds.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Flows that were forgotten before this reader came to them.
    pub lost: u64,
    /// The next ones.
    pub flows: Flows,
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
                batches: VecDeque::new(),
                capacity: capacity.get() as u64,
                end: 0,
            })),
            end: Arc::new(watch::Sender::new(0)),
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds flows in order, and forgets the oldest beyond the capacity; their memory goes with the last one of their batch.
    pub fn add(&self, flows: Vec<NamedEvent>) {
        if flows.is_empty() {
            return;
        }
        let mut ring = self.ring();
        ring.add(flows);
        let end = ring.end;
        drop(ring);
        self.end.send_replace(end);
    }

    /// All that is remembered now, oldest first.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Flows> {
        self.ring().all()
    }

    /// As [`FlowLog::snapshot`], with a reader of exactly what comes after it.
    #[must_use]
    pub fn follow(&self) -> (Vec<Flows>, Cursor) {
        let end = self.end.subscribe();
        let ring = self.ring();
        let cursor = Cursor {
            log: self.clone(),
            next: ring.end,
            end,
        };
        (ring.all(), cursor)
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
        let first = ring.first();
        let lost = first.saturating_sub(self.next);
        let from = self.next.max(first);
        let place = ring.batches.partition_point(|b| b.end() <= from);
        let flows = ring.batches.get(place).map(|b| b.since(from));
        drop(ring);
        let flows = flows.unwrap_or_default();
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

    fn numbered(range: std::ops::Range<u64>) -> Vec<NamedEvent> {
        let event = event(EventKind::Open, Reason::REASON_NONE);
        let clock = Clock::fixed(0, 0);
        let one = Namer::default().name(event, &Fake::new(), &clock);
        let named = |n| NamedEvent {
            time_unix_nano: n,
            ..one.clone()
        };
        range.map(named).collect()
    }

    fn numbers(flows: &[NamedEvent]) -> Vec<u64> {
        flows.iter().map(|flow| flow.time_unix_nano).collect()
    }

    fn all(flows: &[Flows]) -> Vec<u64> {
        flows.iter().flat_map(|some| numbers(some)).collect()
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let log = log(3);
        log.add(numbered(0..5));
        assert_eq!(all(&log.snapshot()), [2, 3, 4]);
        log.add(numbered(5..6));
        assert_eq!(all(&log.snapshot()), [3, 4, 5]);
        log.add(numbered(6..8));
        assert_eq!(all(&log.snapshot()), [5, 6, 7]);
        assert_eq!(log.ring().batches.len(), 2, "the first is gone");
    }

    #[tokio::test]
    async fn a_follower_sees_each_once_and_in_order() {
        let log = log(1_000);
        log.add(numbered(0..3));
        let (before, mut cursor) = log.follow();
        assert_eq!(all(&before), [0, 1, 2]);
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
            log.add(numbered(start..start + 100));
            tokio::task::yield_now().await;
        }
        let seen = reader.await.expect("no panic");
        assert_eq!(seen, (3..603).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_slow_follower_is_told_how_many_it_missed() {
        let log = log(10);
        let (_, mut cursor) = log.follow();
        log.add(numbered(0..25));
        let chunk = cursor.next().await;
        assert_eq!(
            (chunk.lost, numbers(&chunk.flows)),
            (15, (15..25).collect())
        );
        log.add(numbered(25..26));
        let chunk = cursor.next().await;
        assert_eq!((chunk.lost, numbers(&chunk.flows)), (0, vec![25]));
    }
}
