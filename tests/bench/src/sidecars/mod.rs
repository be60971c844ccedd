//! Requests through Weft, through a pair of sidecars, and through nobody, interleaved in one run: real nginx, real wrk, real Envoys.

mod certificates;
mod envoy;
mod family;
mod manifests;
mod measure;
mod memory;
pub(crate) mod programs;
mod report;
mod site;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use weft_lab::{Lab, Weft, WeftOptions};

use crate::interrupt;
use family::{ALL, FAR, Family, NEAR};
use report::Results;
use site::Site;

/// Port of the servers and services.
const PORT: u16 = 80;
/// The one thing that clients may do: GET this.
const ALLOWED_PATH: &str = "/get";
/// Patience of the client that keeps a rate.
const TIMEOUT_MS: u64 = 2_000;
const CONTROL_PORT: u16 = 15_010;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Rounds; each has a turn of each family
    #[arg(long, default_value_t = 8)]
    rounds: u32,
    /// Length of a turn of wrk, seconds
    #[arg(long, default_value_t = 2)]
    slice_seconds: u64,
    /// Length of a turn at a constant rate, seconds
    #[arg(long, default_value_t = 4)]
    paced_seconds: u64,
    /// Open connections
    #[arg(long, default_value_t = 16)]
    connections: u32,
    /// Constant rates, requests per second; 0: none
    #[arg(long, value_delimiter = ',', default_value = "1000,1500")]
    rates: Vec<u32>,
    /// Services of the cluster besides
    #[arg(long, default_value_t = 500)]
    services: u32,
    /// Pods of each of them
    #[arg(long, default_value_t = 50)]
    pods: u32,
    /// Pods of a node whose memory is compared; 0: none
    #[arg(long, default_value_t = 50)]
    crowd: u32,
    /// Who takes part [default: all]
    #[arg(long, value_delimiter = ',', value_enum)]
    families: Vec<Family>,
    /// Leave out what wrk does
    #[arg(long)]
    no_flood: bool,
    /// Keep everything as it is for so many seconds before it is taken down, to look at it
    #[arg(long, default_value_t = 0)]
    linger: u64,
    /// The Envoy program
    #[arg(long, default_value = ".cache/envoy/envoy")]
    envoy: PathBuf,
    /// Folder for results.json, README.md and plots [default: print only]
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Measures and prints, and writes where to.
///
/// # Errors
/// When the lab does not start, or somebody who should answer does not.
pub fn run(options: &Options) -> Result<()> {
    interrupt::watch()?;
    let began = Instant::now();
    let say = |what: &str| {
        eprintln!(
            "bench: sidecars [{:>3} s] {what}",
            began.elapsed().as_secs()
        )
    };
    let envoy = options.envoy.canonicalize().with_context(|| {
        format!(
            "no Envoy at {}: run scripts/install-envoy, or name one by --envoy",
            options.envoy.display()
        )
    })?;
    let wanted = |family: &Family| options.families.is_empty() || options.families.contains(family);
    let families: Vec<Family> = ALL.into_iter().filter(wanted).collect();
    let mut lab = memory::describe(Lab::builder().node("control"));
    for family in &families {
        lab = site::describe(lab, *family);
    }
    say("nodes and pods");
    let lab = lab.build()?;
    manifests::write(&lab, (options.services, options.pods))?;
    let node = lab.node("control")?;
    let _control = Weft::control(&node, lab.manifests(), CONTROL_PORT, WeftOptions::default())?;
    let control = format!("{}:{CONTROL_PORT}", node.addresses().v4);
    let mut sites = Vec::new();
    for family in &families {
        say(&format!("start of {}", family.title(true)));
        let site = Site::start(&lab, *family, &control, &envoy)?;
        site.wait_ready()?;
        sites.push(site);
    }
    let mut cases = Vec::new();
    if !options.no_flood {
        say("as many requests as can be, on one node");
        cases.push(measure::flood(&lab, &mut sites, &NEAR, false, options)?);
        say("as many requests as can be, between nodes");
        cases.push(measure::flood(&lab, &mut sites, &FAR, true, options)?);
    }
    for rate in options.rates.iter().filter(|rate| **rate > 0) {
        say(&format!("{rate} requests per second"));
        cases.push(measure::paced(&mut sites, &FAR, *rate, options)?);
    }
    let memory = match options.crowd {
        0 => None,
        pods => {
            say("memory");
            Some(memory::measure(
                &lab,
                &control,
                &envoy,
                pods,
                (options.services, options.pods),
            )?)
        }
    };
    std::thread::sleep(std::time::Duration::from_secs(options.linger));
    let results = Results::new(options, cases, memory);
    println!("{}", results.terminal());
    options
        .out
        .as_ref()
        .map_or(Ok(()), |out| results.write(out))
}
