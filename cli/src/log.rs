//! Log lines to stderr.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;

use crate::args::{LogArgs, LogFormat};

/// Each failure of a watch would be logged a second time, without a word about what it means.
const QUIET: &str = "kube_client::client::builder=off,kube_runtime::watcher=error";

/// Starts logging for the rest of the process's life.
///
/// # Errors
/// A level that is none.
pub(crate) fn start(args: &LogArgs) -> Result<()> {
    let directives = format!("{QUIET},{}", args.log);
    let filter: EnvFilter = directives.parse().with_context(|| {
        format!(
            "--log {:?}: give error, warn, info, debug or trace",
            args.log
        )
    })?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    match args.log_format {
        LogFormat::Human => subscriber.init(),
        LogFormat::Json => subscriber.json().init(),
    }
    Ok(())
}
