//! The task that keeps looking.

use std::io;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::notices::{Notice, Notices};
use super::report::Report;
use super::scan::{Outlets, Scanner};
use super::{InterfacesReceiver, LocalInterfaces, PodPrograms, WantedReceiver};

/// Changes come in bursts: one look for all of them.
const GATHER: Duration = Duration::from_millis(10);
/// Looks are at least so far apart, however much changes.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks for the wanted pods' interfaces, and keeps their programs attached, until it is told to stop.
pub struct Interfaces {
    wanted: WantedReceiver,
    notices: Notices,
    scanner: Scanner,
    outlets: Outlets,
}

/// Where the others learn of it.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// For the policy engine.
    pub interfaces: InterfacesReceiver,
    /// For people.
    pub report: watch::Receiver<Report>,
}

impl Interfaces {
    /// Prepares the search in this network namespace. Call within a tokio runtime.
    ///
    /// # Errors
    /// When a netlink socket is refused.
    pub fn new(
        wanted: WantedReceiver,
        programs: Box<dyn PodPrograms>,
    ) -> io::Result<(Self, Outlook)> {
        let (interfaces, interfaces_receiver) = watch::channel(LocalInterfaces::default());
        let (report, report_receiver) = watch::channel(Report::default());
        // Subscribed before the first look: what changes in between is told.
        let notices = Notices::subscribe()?;
        let task = Self {
            wanted,
            notices,
            scanner: Scanner::new(programs)?,
            outlets: Outlets { interfaces, report },
        };
        let outlook = Outlook {
            interfaces: interfaces_receiver,
            report: report_receiver,
        };
        Ok((task, outlook))
    }

    /// Runs until `drain` is cancelled; attached programs stay.
    ///
    /// # Errors
    /// When changes can no longer be received, or a look panicked.
    pub async fn run(mut self, drain: CancellationToken) -> io::Result<()> {
        let mut notice = Notice::All;
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            let (mut scanner, outlets) = (self.scanner, self.outlets);
            let look = tokio::task::spawn_blocking(move || {
                scanner.scan(&wanted, notice, &outlets);
                (scanner, outlets)
            });
            (self.scanner, self.outlets) = look.await.map_err(io::Error::other)?;
            let looked = Instant::now();
            let Some(first) = self.wait(looked, &drain).await? else {
                return Ok(());
            };
            notice = first.max(self.gather(looked).await?);
        }
    }

    /// Waits for the next look; `None` at the end.
    async fn wait(
        &mut self,
        looked: Instant,
        drain: &CancellationToken,
    ) -> io::Result<Option<Notice>> {
        let next = looked + self.scanner.patience(looked);
        loop {
            tokio::select! {
                biased;
                () = drain.cancelled() => return Ok(None),
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        // The engine has ended, and with it the agent.
                        drain.cancelled().await;
                        return Ok(None);
                    }
                    return Ok(Some(Notice::Missing));
                }
                told = self.notices.next() => {
                    let told = told?;
                    // Neighbours come and go all the time.
                    if told == Notice::All || self.scanner.is_searching() {
                        return Ok(Some(told));
                    }
                }
                () = tokio::time::sleep_until(next.into()) => {
                    return Ok(Some(self.scanner.due(Instant::now())));
                }
            }
        }
    }

    /// The rest of a burst.
    async fn gather(&mut self, looked: Instant) -> io::Result<Notice> {
        let until = (looked + PAUSE).max(Instant::now() + GATHER);
        let end = tokio::time::sleep_until(until.into());
        tokio::pin!(end);
        let mut most = Notice::Missing;
        loop {
            tokio::select! {
                () = &mut end => return Ok(most),
                told = self.notices.next() => most = most.max(told?),
            }
        }
    }
}
