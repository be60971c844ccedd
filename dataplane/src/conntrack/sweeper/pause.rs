//! How long to rest between two sweeps.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::Swept;

/// Between two sweeps while they are quick: expiry is at most this late.
const EVERY: Duration = Duration::from_secs(1);
/// However large the table is, and however long nothing is due, it is looked at this often.
const AT_LEAST_EVERY: Duration = Duration::from_secs(60);
/// Periodic sweeps rest this many times as long as they ran: 2 % of a core.
const REST: u32 = 49;
/// Sweeps for policy changes rest this many times as long as they ran, when changes come one after the other...
const REST_AFTER_CHANGE: u32 = 4;
/// ...but never so long that a revoked connection would live for a second.
const REST_AFTER_CHANGE_AT_MOST: Duration = Duration::from_millis(500);
/// Connections that found no room in `closing_flows` are swept again after the closer had this long.
const CLOSER_NEEDS: Duration = Duration::from_millis(50);

/// What ends a rest early.
pub(super) struct Calls<'a> {
    /// Living connections have to be judged again.
    pub(super) changed: &'a Notify,
    /// Somebody would like to know how full the tables are.
    pub(super) asked: &'a Notify,
    /// In seconds, how soon after now a connection can be due of which no sweep knows yet, if any can.
    pub(super) ages: &'a mut watch::Receiver<Option<NonZeroU32>>,
}

/// How long to rest, all from the end of a sweep on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// In any case.
    least: Duration,
    /// As long as nothing changes.
    rest: Duration,
    /// After that, if nobody asks and nothing is due.
    until_due: Duration,
}

impl Default for Pause {
    fn default() -> Self {
        Self {
            least: Duration::ZERO,
            rest: EVERY,
            until_due: EVERY,
        }
    }
}

impl Pause {
    /// `shortest`: how soon after its last packet a connection may be due.
    pub(super) fn after(took: Duration, swept: &Swept, shortest: Option<Duration>) -> Self {
        if swept.unread > 0 {
            return Self {
                least: CLOSER_NEEDS,
                rest: CLOSER_NEEDS,
                until_due: CLOSER_NEEDS,
            };
        }
        let least = (took * REST_AFTER_CHANGE).min(REST_AFTER_CHANGE_AT_MOST);
        let rest = (took * REST).clamp(EVERY, AT_LEAST_EVERY);
        let known = swept.due.unwrap_or(AT_LEAST_EVERY);
        let due = shortest.map_or(known, |shortest| known.min(shortest));
        Self {
            least,
            rest,
            until_due: due.clamp(rest, AT_LEAST_EVERY),
        }
    }

    /// When the next sweep is, if a service ends connections after so many seconds at the soonest.
    fn end(&self, age: Option<NonZeroU32>) -> Duration {
        let age = age.map(|seconds| Duration::from_secs(seconds.get().into()));
        age.map_or(self.until_due, |age| self.until_due.min(age).max(self.rest))
    }

    /// Rests.
    pub(super) async fn wait(&self, calls: Calls<'_>) {
        let Calls {
            changed,
            asked,
            ages,
        } = calls;
        let start = Instant::now();
        tokio::time::sleep_until(start + self.least).await;
        let (mut is_asked, mut ages_may_change) = (false, true);
        loop {
            let end = if is_asked {
                self.rest
            } else {
                self.end(*ages.borrow_and_update())
            };
            tokio::select! {
                // A change meanwhile has left its permit here.
                () = changed.notified() => return,
                () = tokio::time::sleep_until(start + end) => return,
                () = asked.notified(), if !is_asked => is_asked = true,
                changes = ages.changed(), if ages_may_change => ages_may_change = changes.is_ok(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Option<Duration> = Some(Duration::from_secs(10));

    fn swept(due: Option<u64>) -> Swept {
        Swept {
            due: due.map(Duration::from_secs),
            ..Default::default()
        }
    }

    #[test]
    fn small_tables_are_swept_every_second_and_large_ones_take_2_percent() {
        let due_now = swept(Some(0));
        let whole = |took| Pause::after(took, &due_now, SHORTEST).end(None);
        assert_eq!(whole(Duration::from_millis(1)), EVERY);
        assert_eq!(
            whole(Duration::from_millis(100)),
            Duration::from_millis(4_900)
        );
        assert_eq!(whole(Duration::from_secs(5)), AT_LEAST_EVERY);
        let slow = Pause::after(Duration::from_millis(300), &due_now, SHORTEST);
        assert_eq!(slow.least, REST_AFTER_CHANGE_AT_MOST);
    }

    #[test]
    fn rests_until_something_can_be_due() {
        let quick = Duration::from_millis(1);
        let whole = |due, age| {
            let age = NonZeroU32::new(age);
            Pause::after(quick, &swept(due), SHORTEST)
                .end(age)
                .as_secs()
        };
        assert_eq!(whole(Some(4), 0), 4);
        assert_eq!(whole(Some(400), 0), 10, "one of which nothing is known");
        assert_eq!(whole(None, 0), 10);
        assert_eq!(whole(Some(4), 2), 2, "a service has its own");
        assert_eq!(whole(Some(4), 6), 4);
        assert_eq!(
            Pause::after(quick, &swept(None), None).end(None),
            AT_LEAST_EVERY
        );
    }

    struct Resting {
        changed: Notify,
        asked: Notify,
        age: watch::Sender<Option<NonZeroU32>>,
    }

    impl Resting {
        fn new() -> Self {
            Self {
                changed: Notify::new(),
                asked: Notify::new(),
                age: watch::channel(None).0,
            }
        }

        /// Seconds of rest with 10 s until something is due.
        async fn seconds(&self) -> u64 {
            let start = Instant::now();
            let calls = Calls {
                changed: &self.changed,
                asked: &self.asked,
                ages: &mut self.age.subscribe(),
            };
            let pause = Pause::after(Duration::from_millis(1), &swept(None), SHORTEST);
            pause.wait(calls).await;
            start.elapsed().as_secs()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_waits_for_a_second_and_a_change_for_nothing() {
        let resting = Resting::new();
        assert_eq!(resting.seconds().await, 10);
        resting.asked.notify_one();
        assert_eq!(resting.seconds().await, 1);
        resting.changed.notify_one();
        assert_eq!(resting.seconds().await, 0);
        resting.asked.notify_one();
        resting.changed.notify_one();
        assert_eq!(resting.seconds().await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_with_a_shorter_age_is_heard_of_at_once() {
        let resting = Resting::new();
        let change = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            resting.age.send_replace(NonZeroU32::new(3));
        };
        let (seconds, ()) = tokio::join!(resting.seconds(), change);
        assert_eq!(seconds, 3);
        // Nobody will ever change it again.
        let Resting {
            changed,
            asked,
            age,
        } = resting;
        let mut ages = age.subscribe();
        drop(age);
        let calls = Calls {
            changed: &changed,
            asked: &asked,
            ages: &mut ages,
        };
        let start = Instant::now();
        Pause::default().wait(calls).await;
        assert_eq!(start.elapsed(), EVERY);
    }
}
