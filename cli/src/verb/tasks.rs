//! Parts of one process: when one fails, all stop in order.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long the others have for stopping once the main one has.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Tasks beside a main one.
pub(super) struct Tasks {
    set: JoinSet<Result<()>>,
    drain: CancellationToken,
}

impl Tasks {
    /// None yet; `drain` is what makes them stop.
    pub(super) fn new(drain: CancellationToken) -> Self {
        Self {
            set: JoinSet::new(),
            drain,
        }
    }

    /// Adds one. It is to end when `drain` is cancelled, and not before.
    pub(super) fn spawn(&mut self, task: impl Future<Output = Result<()>> + Send + 'static) {
        let drain = self.drain.clone();
        self.set.spawn(async move {
            let ended = task.await;
            // Nothing to do without it.
            drain.cancel();
            ended
        });
    }

    /// Runs the main task to its end and stops the others.
    ///
    /// # Errors
    /// The main one's error, else the first of another.
    pub(super) async fn finish(mut self, main: impl Future<Output = Result<()>>) -> Result<()> {
        let mut outcome = main.await;
        self.drain.cancel();
        let others = async {
            while let Some(joined) = self.set.join_next().await {
                let ended = joined.context("a part of weft panicked").flatten();
                outcome = std::mem::replace(&mut outcome, Ok(())).and(ended);
            }
        };
        if timeout(STOP_WITHIN, others).await.is_err() {
            tracing::warn!("some connections did not end within {STOP_WITHIN:?}");
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failing_part_stops_the_main_one_and_is_told() {
        let drain = CancellationToken::new();
        let mut tasks = Tasks::new(drain.clone());
        tasks.spawn(async { anyhow::bail!("broken") });
        let main = async {
            drain.cancelled().await;
            Ok(())
        };
        let ended = tasks.finish(main).await;
        assert_eq!(ended.map_err(|e| e.to_string()), Err("broken".to_owned()));
    }

    #[tokio::test]
    async fn the_main_error_comes_first() {
        let drain = CancellationToken::new();
        let mut tasks = Tasks::new(drain.clone());
        let token = drain.clone();
        tasks.spawn(async move {
            token.cancelled().await;
            anyhow::bail!("second")
        });
        let ended = tasks.finish(async { anyhow::bail!("first") }).await;
        assert_eq!(ended.map_err(|e| e.to_string()), Err("first".to_owned()));
    }

    #[tokio::test]
    async fn all_well_is_no_error() {
        let drain = CancellationToken::new();
        let mut tasks = Tasks::new(drain.clone());
        let token = drain.clone();
        tasks.spawn(async move {
            token.cancelled().await;
            Ok(())
        });
        assert!(tasks.finish(async { Ok(()) }).await.is_ok());
    }
}
