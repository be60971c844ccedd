//! What each verb does.

mod agent;
mod ca;
mod check;
mod cleanup;
mod control;
mod doctor;
mod envoy;
mod flows;
mod look;
mod tasks;
mod up;

use std::io;

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
        Verb::Up(args) => up::run(&args).await?,
        Verb::Control(args) => control::run(&args).await?,
        Verb::Agent(args) => agent::run(&args).await?,
        Verb::Status(args) => look::status(&args).await?,
        Verb::Services(args) => look::services(&args).await?,
        Verb::Backends(args) => look::backends(&args).await?,
        Verb::Workloads(args) => look::workloads(&args).await?,
        Verb::Policies(args) => look::policies(&args).await?,
        Verb::Certificates(args) => look::certificates(&args).await?,
        Verb::Flows(args) => flows::flows(&args).await?,
        Verb::Conntrack(args) => flows::conntrack(&args).await?,
        Verb::Ca(command) => ca::run(&command)?,
        Verb::Check(args) => check::run(&args).await?,
        Verb::Doctor(args) => doctor::run(&args).await?,
        Verb::EnvoyProcess(args) => envoy::run(&args)?,
        Verb::Cleanup(args) => cleanup::run(&args).await?,
    }
    Ok(())
}
