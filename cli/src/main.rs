//! The `weft` binary.
#![forbid(unsafe_code)]

mod args;
mod log;
mod output;
mod verb;

use std::process::ExitCode;

use anyhow::Context;

use crate::args::Cli;
use crate::verb::Failure;

/// What was asked for was not done.
const FAILED: u8 = 1;
/// What was asked for makes no sense.
const USAGE: u8 = 2;

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
                eprintln!("weft: {error:#}");
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
    runtime.block_on(verb::run(cli.verb))
}
