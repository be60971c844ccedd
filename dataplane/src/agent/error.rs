//! Why the agent cannot start, or had to stop.

use tokio::task::JoinError;

use crate::admin::LockError;
use crate::bpf::BpfError;
use crate::http::BindError;
use crate::tables::TableError;

/// Why the agent cannot start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The run directory.
    #[error(transparent)]
    RunDir(#[from] LockError),
    /// Loading or attaching.
    #[error(transparent)]
    Kernel(#[from] BpfError),
    /// The search for local pods' interfaces.
    #[error("local interfaces cannot be watched: {0}")]
    Interfaces(std::io::Error),
    /// Reading what an earlier agent left.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The metrics address.
    #[error(transparent)]
    Metrics(#[from] BindError),
    /// A task ended that should have gone on.
    #[error("{task} stopped: {reason}")]
    Task {
        /// Which.
        task: &'static str,
        /// Why, as far as it said.
        reason: String,
    },
}

pub(super) fn task_failed(task: &'static str, error: &JoinError) -> AgentError {
    AgentError::Task {
        task,
        reason: error.to_string(),
    }
}
