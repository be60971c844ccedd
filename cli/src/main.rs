//! The `weft` binary.
#![forbid(unsafe_code)]

mod args;
mod log;
mod output;
mod signals;
mod verb;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use crate::args::Cli;
use crate::verb::Failure;

/// What was asked for was not done.
const FAILED: u8 = 1;
/// What was asked for makes no sense.
const USAGE: u8 = 2;
/// Threads that still read files have this long.
const STOP_WITHIN: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let cli = match Cli::from_process() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for, too: they go to stdout, and nothing failed. A closed pipe is fine.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(USAGE).into();
        }
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Failure::Told(error) = failure {
                eprintln!("weft: {}", sentence(&error));
            }
            FAILED.into()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    log::start(&cli.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let outcome = runtime.block_on(verb::run(cli.verb));
    runtime.shutdown_timeout(STOP_WITHIN);
    outcome
}

/// The error and its causes; those that the error's own text quotes are not repeated.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer: {source}")]
    struct Outer {
        source: std::io::Error,
    }

    #[test]
    fn causes_are_told_once() {
        let inner = || std::io::Error::other("disk on fire");
        let error = anyhow::Error::new(Outer { source: inner() });
        assert_eq!(sentence(&error), "outer: disk on fire");
        let error = anyhow::Error::new(inner()).context("reading");
        assert_eq!(sentence(&error), "reading: disk on fire");
    }
}
