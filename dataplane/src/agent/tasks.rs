//! The agent's tasks: all end together.

use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::error::{AgentError, task_failed};

/// Tasks that the agent cannot do without: when one ends early, all do.
pub(super) struct Tasks {
    set: JoinSet<(&'static str, Result<(), String>)>,
    drain: CancellationToken,
}

impl Tasks {
    pub(super) fn new(drain: CancellationToken) -> Self {
        let set = JoinSet::new();
        Self { set, drain }
    }

    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        self.set.spawn(async move {
            // A panic is caught here, where the name of the task is known.
            let ended = match tokio::spawn(task).await {
                Ok(ended) => ended,
                Err(e) => Err(e.to_string()),
            };
            (name, ended)
        });
    }

    pub(super) async fn wait(mut self) -> Result<(), AgentError> {
        let mut first = Ok(());
        while let Some(joined) = self.set.join_next().await {
            let failure = match joined {
                Ok((_, Ok(()))) if self.drain.is_cancelled() => continue,
                Ok((task, ended)) => AgentError::Task {
                    task,
                    reason: ended.err().unwrap_or_else(|| "it ended early".to_owned()),
                },
                Err(e) => task_failed("a task", &e),
            };
            if first.is_ok() {
                first = Err(failure);
            }
            // The others have nothing to do without it.
            self.drain.cancel();
        }
        first
    }
}
