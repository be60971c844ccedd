//! What each verb does.

mod cleanup;
mod doctor;

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::args::Verb;

/// Why a verb did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// One sentence that says what to do.
    #[error("{0:#}")]
    Told(#[from] anyhow::Error),
    /// What was printed says it already.
    #[error("see above")]
    Quiet,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Told(anyhow::Error::new(error).context("printing"))
    }
}

/// Runs a verb to its end.
///
/// # Errors
/// What kept it from its end.
pub(crate) async fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Doctor(args) => doctor::run(&args).await,
        Verb::Cleanup(args) => cleanup::run(&args),
        _ => Err(Failure::Quiet),
    }
}

/// Whether somebody answers on the agent's socket. One that was left behind by a crash refuses.
fn agent_runs(run_dir: &Path) -> bool {
    match UnixStream::connect(run_dir.join("agent.sock")) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused
        ),
    }
}
