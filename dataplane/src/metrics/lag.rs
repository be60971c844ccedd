//! How far the tables are behind the control plane.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The response that is being put into the tables: they are taken one after the other.
#[derive(Debug, Default)]
pub struct Lag(Mutex<Option<Instant>>);

/// Until it is dropped, a response is not in the tables.
#[derive(Debug)]
#[must_use]
pub struct Behind<'a>(&'a Lag);

impl Lag {
    /// A response was received at this time.
    pub fn received(&self, at: Instant) -> Behind<'_> {
        *self.lock() = Some(at);
        Behind(self)
    }

    /// For how long the tables have been behind; zero: they are not.
    pub(super) fn now(&self) -> Duration {
        self.lock().map_or(Duration::ZERO, |at| at.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Behind<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_until_the_response_is_in_the_tables() {
        let lag = Lag::default();
        assert_eq!(lag.now(), Duration::ZERO);
        let earlier = Instant::now()
            .checked_sub(Duration::from_secs(3))
            .expect("up for longer");
        let behind = lag.received(earlier);
        assert!(lag.now() >= Duration::from_secs(3));
        drop(behind);
        assert_eq!(lag.now(), Duration::ZERO);
    }
}
