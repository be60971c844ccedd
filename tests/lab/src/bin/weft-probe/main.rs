//! A small server and client that runs inside pods of the lab and says precisely what it saw: which backend
//! answered, from which address, after how long, or with which error.
#![forbid(unsafe_code)]

mod errno;
mod get;
mod hold;
mod load;
mod serve;
mod session;
mod spoof;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about = "Server and client for tests in the lab")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Answer each line (TCP) or datagram (UDP) with one line of JSON
    Serve(serve::Args),
    /// Make requests and print one line of JSON for each
    Get(get::Args),
    /// Make requests for a while from several workers and print their sum as JSON
    Load(load::Args),
    /// Hold one connection open and print when and how it was broken, as JSON
    Hold(hold::Args),
    /// Send packets with whatever source address; nothing is waited for
    Spoof(spoof::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Serve(args) => serve::run(&args),
        Verb::Get(args) => get::run(&args),
        Verb::Load(args) => load::run(args),
        Verb::Hold(args) => hold::run(&args),
        Verb::Spoof(args) => spoof::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weft-probe: {error}");
            ExitCode::FAILURE
        }
    }
}
