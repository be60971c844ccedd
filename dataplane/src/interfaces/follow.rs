//! Looking again whenever what is known about pods' interfaces changes.

use std::io;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{InterfacesReceiver, LocalInterfaces, WantedPods, WantedReceiver};

/// What was not found may be later: runtimes name a pod before they have wired it up.
const AGAIN: Duration = Duration::from_secs(1);

/// Whoever does something with pods' interfaces once they are found.
pub(crate) trait Follower: Send + 'static {
    /// Acts on what is known now; may block. False: something was missing, so it is to be called again soon.
    fn look(&mut self, local: &LocalInterfaces, wanted: &WantedPods) -> bool;
}

/// Has `follower` look at once and after each change, until `drain` is cancelled. Returns it then.
///
/// # Errors
/// When a look panicked.
pub(crate) async fn follow<F: Follower>(
    mut follower: F,
    mut interfaces: InterfacesReceiver,
    mut wanted: WantedReceiver,
    drain: CancellationToken,
) -> io::Result<F> {
    loop {
        let local = interfaces.borrow_and_update().clone();
        let named = wanted.borrow_and_update().clone();
        let look = tokio::task::spawn_blocking(move || {
            let complete = follower.look(&local, &named);
            (follower, complete)
        });
        let complete;
        (follower, complete) = look.await.map_err(io::Error::other)?;
        let again = async {
            if complete {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(AGAIN).await;
        };
        tokio::select! {
            () = drain.cancelled() => return Ok(follower),
            () = again => {}
            changed = interfaces.changed() => if changed.is_err() {
                // The search has ended, and with it the agent.
                drain.cancelled().await;
                return Ok(follower);
            },
            changed = wanted.changed() => if changed.is_err() {
                // The engine has, likewise.
                drain.cancelled().await;
                return Ok(follower);
            },
        }
    }
}
