//! Some of what agents said, for as long back as somebody may ask.
//!
//! The older an answer, the further apart the ones that are kept: a twelfth of their age. A pair that does nothing costs a pointer in
//! each of them. So memory is bounded by the bound on pairs, however long this runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Counts, Key};

/// The longest that is looked back.
const LONGEST: Duration = Duration::from_secs(3_700);
/// Answers of age A are at least A / THIN apart.
const THIN: u32 = 12;
/// Pairs that are followed; the agents bound theirs as well.
const MOST_KEYS: usize = 20_000;

/// What was counted at some moments.
#[derive(Debug, Default)]
pub(crate) struct History {
    keys: Vec<Key>,
    places: HashMap<Key, usize>,
    moments: Vec<Moment>,
}

#[derive(Debug)]
struct Moment {
    at: Instant,
    /// By place of the key; keys that came later have none.
    counts: Vec<Arc<Counts>>,
}

/// What happened between two moments.
#[derive(Debug, Default)]
pub(crate) struct Between {
    /// How far apart they are.
    pub(crate) seconds: f64,
    pub(crate) counts: Vec<(Key, Counts)>,
}

impl History {
    /// Adds what was counted at `at`, later than all before.
    pub(crate) fn push(&mut self, at: Instant, counted: HashMap<Key, Counts>) {
        let zero = Arc::new(Counts::default());
        let last = self.moments.last();
        let mut counts: Vec<Arc<Counts>> = last.map_or_else(Vec::new, |m| m.counts.clone());
        for (key, new) in counted {
            let place = match self.places.get(&key) {
                Some(place) => *place,
                None if self.keys.len() >= MOST_KEYS => continue,
                None => {
                    self.keys.push(key.clone());
                    self.places.insert(key, self.keys.len() - 1);
                    self.keys.len() - 1
                }
            };
            if counts.len() <= place {
                counts.resize(place + 1, Arc::clone(&zero));
            }
            if *counts[place] != new {
                counts[place] = Arc::new(new);
            }
        }
        self.moments.push(Moment { at, counts });
        self.thin(at);
    }

    /// Forgets everything: what is counted from now on begins anew.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What happened in the last `window`, or since the beginning if that is shorter.
    pub(crate) fn last(&self, window: Duration) -> Between {
        let Some(now) = self.moments.last() else {
            return Between::default();
        };
        // Polls are a little late now and then.
        let reach = window + window / THIN;
        let within = |m: &&Moment| now.at.duration_since(m.at) <= reach;
        let Some(then) = self.moments.iter().find(within) else {
            return Between::default();
        };
        let zero = Counts::default();
        let counts = now.counts.iter().enumerate().map(|(place, counts)| {
            let before = then.counts.get(place).map_or(&zero, AsRef::as_ref);
            (self.keys[place].clone(), counts.since(before))
        });
        Between {
            seconds: now.at.duration_since(then.at).as_secs_f64(),
            counts: counts.filter(|(_, c)| !c.is_idle()).collect(),
        }
    }

    fn thin(&mut self, now: Instant) {
        let mut kept: Vec<Moment> = Vec::with_capacity(self.moments.len());
        let mut moments = std::mem::take(&mut self.moments).into_iter().peekable();
        while let Some(moment) = moments.next() {
            let age = now.duration_since(moment.at);
            // Between the last one that stays and the next one there would be no more than there may be: this one can go.
            let gap = match (kept.last(), moments.peek()) {
                (Some(before), Some(after)) => after.at.duration_since(before.at),
                _ => Duration::MAX,
            };
            if age <= LONGEST && gap > age / THIN {
                kept.push(moment);
            }
        }
        self.moments = kept;
    }

    #[cfg(test)]
    pub(super) fn moments(&self) -> usize {
        self.moments.len()
    }
}
