//! Who was not let in: all counted, some told, so that nobody fills the log from outside.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One in this time is told, by reason.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Counts by reason: "tls" for a handshake that failed, "token" for a request without one that is valid.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<BTreeMap<&'static str, Kind>>);

#[derive(Debug, Default)]
struct Kind {
    count: u64,
    told: Option<Instant>,
    /// Since then.
    untold: u64,
}

impl Refusals {
    /// Counts one, and tells of it or of several at once.
    pub(crate) fn note(&self, reason: &'static str, who: &str, why: &str) {
        if let Some(untold) = self.count(reason, Instant::now()) {
            tracing::warn!(
                "{who}: refused: {why} ({untold} more since the last one that was told)"
            );
        }
    }

    /// How many were passed over in silence, if this one is to be told.
    fn count(&self, reason: &'static str, now: Instant) -> Option<u64> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kinds.entry(reason).or_default();
        kind.count += 1;
        let due = |told| now.saturating_duration_since(told) >= TELL_EVERY;
        if kind.told.is_none_or(due) {
            kind.told = Some(now);
            return Some(std::mem::take(&mut kind.untold));
        }
        kind.untold += 1;
        None
    }

    /// So far.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kinds
            .iter()
            .map(|(reason, kind)| (*reason, kind.count))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_a_flood_is_told_once() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.count("tls", start), Some(0));
        for _ in 0..1_000 {
            assert_eq!(refusals.count("tls", start), None);
        }
        assert_eq!(refusals.count("token", start), Some(0));
        assert_eq!(refusals.count("tls", start + TELL_EVERY), Some(1_000));
        assert_eq!(refusals.counts()["tls"], 1_002);
        assert_eq!(refusals.counts()["token"], 1);
    }
}
