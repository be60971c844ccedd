//! The command line of the bench; see the library for what it does.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use weft_bench::{accel, load, policies, report, run, scale, sidecars, traced};

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure, print a table, and write results, tables and plots
    Run(run::Options),
    /// Measure what a change of policy costs the agent (needs root)
    Policies(policies::Options),
    /// Measure what a large cluster with many nodes costs the control plane
    Scale(scale::Options),
    /// Measure what it costs to tell of connections, and to trace them (needs root)
    Traced(traced::Options),
    /// Measure requests through Weft and through a pair of sidecars (needs root)
    Sidecars(sidecars::Options),
    /// Measure same-node acceleration (needs root)
    Accel(accel::Options),
    /// Write tables and plots again from a results.json
    Report {
        /// Folder that holds results.json and gets the rest
        #[arg(long, default_value = "docs/bench")]
        out: PathBuf,
    },
    /// The load client (started by `run` inside a pod)
    #[command(hide = true)]
    Client {
        #[arg(long)]
        socket: PathBuf,
    },
    /// The load server (started by `run` inside a pod)
    #[command(hide = true)]
    Serve {
        #[arg(long)]
        port: u16,
        #[arg(long)]
        threads: u8,
    },
    /// The server of messages of any size (started by `accel` inside a pod)
    #[command(hide = true)]
    ServePolled {
        #[arg(long)]
        port: u16,
        #[arg(long)]
        threads: u8,
    },
    /// The server whose sockets block (started by `accel` inside a pod)
    #[command(hide = true)]
    ServeBlocking {
        #[arg(long)]
        port: u16,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().verb {
        Verb::Run(options) => run::run(&options),
        Verb::Policies(options) => policies::run(&options),
        Verb::Scale(options) => scale::run(&options),
        Verb::Traced(options) => traced::run(&options),
        Verb::Sidecars(options) => sidecars::run(&options),
        Verb::Accel(options) => accel::run(&options),
        Verb::ServePolled { port, threads } => load::serve_polled(port, threads),
        Verb::ServeBlocking { port } => load::serve_blocking(port),
        Verb::Report { out } => report::write(&report::read(&out)?, &out),
        Verb::Client { socket } => load::client(&socket),
        Verb::Serve { port, threads } => load::serve(port, threads),
    }
}
