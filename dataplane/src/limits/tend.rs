//! Takes ejected backends back when their time is over.
//!
//! The kernel does so by itself when it comes upon one in a choice. Here it is done for those that nobody chooses, so that the
//! event comes in time and `max_ejected_percent` is not used up by backends that are long back; and without an agent, no backend
//! stays ejected.

use std::io::{self, Read};
use std::time::Duration;

use libbpf_rs::{Iter, Link};
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_secs(1);

/// Looks through the backends that failed lately.
pub trait Tender: Send {
    /// One look.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn tend(&mut self) -> io::Result<()>;
}

/// The iterator over `backend_health`.
pub(crate) struct HealthIterator(pub(crate) Link);

impl Tender for HealthIterator {
    fn tend(&mut self) -> io::Result<()> {
        let mut pass = Iter::new(&self.0).map_err(|e| io::Error::other(e.to_string()))?;
        // It writes nothing: reading makes it run.
        pass.read_to_end(&mut Vec::new()).map(|_| ())
    }
}

/// Tends once a second until `drain` is cancelled.
pub(crate) async fn tend(
    mut tender: Box<dyn Tender>,
    drain: CancellationToken,
) -> Result<(), String> {
    let mut failing = false;
    loop {
        tokio::select! {
            () = drain.cancelled() => return Ok(()),
            () = tokio::time::sleep(EVERY) => {}
        }
        let look = tokio::task::spawn_blocking(move || {
            let result = tender.tend();
            (tender, result)
        });
        let result;
        (tender, result) = look.await.map_err(|e| e.to_string())?;
        match result {
            Ok(()) => failing = false,
            // Once, not every second.
            Err(e) if !failing => {
                failing = true;
                tracing::warn!("ejected backends come back only when they are chosen: {e}");
            }
            Err(_) => {}
        }
    }
}
