//! Same-node acceleration: two pods of a node with it, and an identical pair without a mesh, in turns.

mod measure;
mod report;
mod site;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use weft_lab::Lab;

use crate::interrupt;
use measure::{Case, Load};
use report::Results;
use site::{Site, Way};

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Under two minutes: few rounds
    #[arg(long)]
    quick: bool,
    /// Rounds; each has a turn of each lane [default: 15, quick: 3]
    #[arg(long)]
    rounds: Option<u32>,
    /// Length of a turn, milliseconds [default: 400, quick: 200]
    #[arg(long)]
    slice_ms: Option<u64>,
    /// Only cases with this in their names
    #[arg(long, default_value = "", hide_default_value = true)]
    cases: String,
    /// Folder for results.json, README.md and plots [default: print only]
    #[arg(long)]
    out: Option<PathBuf>,
}

const SIZES: [u32; 5] = [1, 64, 1 << 10, 16 << 10, 64 << 10];
const STREAM_SIZES: [u32; 4] = [64, 1 << 10, 16 << 10, 64 << 10];
const CONNECTIONS: [usize; 3] = [1, 16, 128];

/// Measures and prints, and writes where to.
///
/// # Errors
/// When the lab or an agent does not start, or a load fails.
pub fn run(options: &Options) -> Result<()> {
    interrupt::watch()?;
    let began = Instant::now();
    let say = |what: &str| eprintln!("bench: accel [{:>3} s] {what}", began.elapsed().as_secs());
    let mut lab = Lab::builder();
    for way in Way::ALL {
        lab = site::describe(lab, way);
    }
    say("nodes and pods");
    let lab = lab.build()?;
    lab.publish()?;
    let mut sites = Vec::new();
    for way in Way::ALL {
        say(&format!("start of {}", way.title()));
        sites.push(Site::start(&lab, way)?);
    }
    let rounds = options.rounds.unwrap_or(if options.quick { 3 } else { 15 });
    let millis = options
        .slice_ms
        .unwrap_or(if options.quick { 200 } else { 400 });
    let mut cases = Vec::new();
    for mut case in plan() {
        if case.title().contains(&options.cases) {
            say(&case.title());
            case.take_turns(&lab, &mut sites, rounds, millis)?;
            cases.push(case);
        }
    }
    let results = Results::new(cases);
    println!("{}", results.terminal());
    options
        .out
        .as_ref()
        .map_or(Ok(()), |out| results.write(out))
}

/// Every comparison, the lane that others are compared with first.
fn plan() -> Vec<Case> {
    let mut cases = Vec::new();
    let mesh = [Way::Plain, Way::Accelerated, Way::Naive];
    for connections in CONNECTIONS {
        let exchanges = SIZES.map(|size| Load::Exchange { size, connections });
        cases.extend(exchanges.map(|load| Case::new(load, &mesh)));
    }
    for connections in CONNECTIONS {
        let exchanges = SIZES.map(|size| Load::Blocking { size, connections });
        cases.extend(exchanges.map(|load| Case::new(load, &[Way::Plain, Way::Eager, Way::Naive])));
    }
    for nodelay in [false, true] {
        let streams = STREAM_SIZES.map(|size| Load::Stream { size, nodelay });
        cases.extend(streams.map(|load| Case::new(load, &mesh)));
    }
    cases.push(Case::new(Load::Wrk, &mesh));
    let out = [Way::Off, Way::OptedOut];
    for connections in [1, 16] {
        let load = Load::Exchange {
            size: 1 << 10,
            connections,
        };
        cases.push(Case::new(load, &out));
    }
    cases.push(Case::new(Load::NewConnections, &out));
    cases
}
