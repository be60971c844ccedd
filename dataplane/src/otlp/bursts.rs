//! Bursts of segments that were sent again, kept until the connection that they are of has ended and its span is made.

use std::collections::VecDeque;

use foldhash::HashMap;

use super::ids;
use crate::flow::NamedEvent;

/// Connections whose bursts are remembered: few have any. The oldest are forgotten first, and their spans tell the number alone.
const MOST: usize = 4_096;
/// Of one connection. What comes after that is told as if it were of the last one.
const MOST_OF_ONE: usize = 16;

/// When segments were sent again, in `CLOCK_MONOTONIC`, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Burst {
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    pub(super) segments: u32,
}

/// By the connection's trace.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    of: HashMap<[u8; 16], Vec<Burst>>,
    order: VecDeque<[u8; 16]>,
}

impl Bursts {
    /// Takes notice of a burst, an [`EventKind::Retransmitted`](crate::flow::EventKind::Retransmitted).
    pub(super) fn remember(&mut self, named: &NamedEvent) {
        let event = &named.event;
        let burst = Burst {
            first_ns: event.burst_ns,
            last_ns: event.time_ns,
            segments: event.retransmits,
        };
        let trace = ids::trace_id(named, ids::start_unix_nano(named));
        let known = self.of.entry(trace).or_insert_with(|| {
            self.order.push_back(trace);
            Vec::new()
        });
        let is_full = known.len() >= MOST_OF_ONE;
        match known.last_mut() {
            Some(last) if is_full => {
                last.last_ns = burst.last_ns;
                last.segments = last.segments.saturating_add(burst.segments);
            }
            _ => known.push(burst),
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.of.remove(&oldest);
        }
    }

    /// All of a connection that has ended, which is forgotten.
    pub(super) fn take(&mut self, trace: [u8; 16]) -> Vec<Burst> {
        self.of.remove(&trace).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::fake::Fake;
    use crate::flow::tests::event;
    use crate::flow::{Clock, Event, EventKind, Namer, Reason};

    fn burst(isn: u32, at: u64) -> NamedEvent {
        let event = Event {
            isn,
            time_ns: at + 5,
            burst_ns: at,
            retransmits: 2,
            ..event(EventKind::Retransmitted, Reason::REASON_NONE)
        };
        Namer::default().name(event, &Fake::new(), &Clock::fixed(0, 0))
    }

    fn trace(named: &NamedEvent) -> [u8; 16] {
        ids::trace_id(named, 0)
    }

    #[test]
    fn each_connection_has_its_own_and_they_are_given_once() {
        let mut bursts = Bursts::default();
        for (isn, at) in [(1, 10), (2, 20), (1, 30)] {
            bursts.remember(&burst(isn, at));
        }
        let first = trace(&burst(1, 0));
        let times: Vec<_> = bursts.take(first).iter().map(|b| b.first_ns).collect();
        assert_eq!(times, [10, 30]);
        assert!(bursts.take(first).is_empty());
        assert_eq!(bursts.take(trace(&burst(2, 0))).len(), 1);
    }

    #[test]
    fn memory_is_bounded_and_no_segment_of_a_connection_is_lost() {
        let mut bursts = Bursts::default();
        for at in 0..100 {
            bursts.remember(&burst(1, at));
        }
        let of_one = bursts.take(trace(&burst(1, 0)));
        assert_eq!(of_one.len(), MOST_OF_ONE);
        assert_eq!(of_one.iter().map(|b| b.segments).sum::<u32>(), 200);
        assert_eq!(of_one.last().map(|b| b.last_ns), Some(104));
        for isn in 0..10_000 {
            bursts.remember(&burst(isn, 0));
        }
        assert!(bursts.of.len() <= MOST && bursts.order.len() <= MOST);
    }
}
