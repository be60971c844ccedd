//! A whole run: which sizes, how long, and where to put what comes out.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use crate::case::Load;
use crate::interrupt;
use crate::machine;
use crate::peer::Kind;
use crate::plan::Plan;
use crate::pods;
use crate::report;
use crate::results::Results;
use crate::stage::{self, Scope, Settings};

/// Options of `weft-bench run`.
#[derive(Args)]
pub struct Options {
    /// A few minutes: two sizes, few rounds
    #[arg(long)]
    quick: bool,
    /// Who takes part; no mesh is what the others are compared with
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "direct,weft,iptables,nftables"
    )]
    peers: Vec<Kind>,
    /// Sizes as SERVICESxENDPOINTS, ENDPOINTS even, instead of the default ones
    #[arg(long, value_delimiter = ',', value_parser = parse_plan)]
    sizes: Vec<Plan>,
    /// Leave out what policies cost pods
    #[arg(long)]
    no_policies: bool,
    /// Nothing but what policies cost pods
    #[arg(long, conflicts_with_all = ["no_policies", "sizes", "quick"])]
    only_policies: bool,
    /// Of what policies cost, only cases with this in their names
    #[arg(long, default_value = "", hide_default_value = true)]
    policy_cases: String,
    /// Of what policies cost, only the first so many crowds
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    policy_crowds: usize,
    /// Leave out requests over open connections
    #[arg(long)]
    no_requests: bool,
    /// Folder with kube-apiserver and kube-proxy (`tests/bench/setup` prints it)
    #[arg(long)]
    kubernetes: PathBuf,
    /// The weft program
    #[arg(long, default_value = "target/release/weft")]
    weft: PathBuf,
    /// Rounds of each comparison [default: 40, quick: 12]
    #[arg(long)]
    rounds: Option<u32>,
    /// Longest wait for a peer's full sync, seconds [default: 180, quick: 150]
    #[arg(long)]
    sync_bound: Option<u64>,
    /// Folder for results.json, README.md and plots
    #[arg(long, default_value = "docs/bench")]
    out: PathBuf,
}

/// Sizes of a full run. Fifty endpoints as in a large deployment; two where
/// kube-proxy in iptables mode would otherwise need hours to start.
const FULL: [(Plan, Scope); 5] = [
    (
        Plan {
            services: 1,
            endpoints: 50,
        },
        Scope::Connections,
    ),
    (
        Plan {
            services: 500,
            endpoints: 50,
        },
        Scope::All,
    ),
    (
        Plan {
            services: 5_000,
            endpoints: 2,
        },
        Scope::Connections,
    ),
    (
        Plan {
            services: 10_000,
            endpoints: 2,
        },
        Scope::Connections,
    ),
    (
        Plan {
            services: 5_000,
            endpoints: 50,
        },
        Scope::Connections,
    ),
];

/// Sizes of a quick run.
const QUICK: [(Plan, Scope); 2] = [FULL[0], FULL[1]];

/// Measures and reports.
pub fn run(options: &Options) -> Result<()> {
    interrupt::watch()?;
    ensure!(
        options.peers.first() == Some(&Kind::Direct),
        "--peers must begin with `direct`: the others are compared with it"
    );
    let settings = settings(options);
    let mut results = Results {
        command: machine::command_line(),
        date: machine::date(),
        machine: machine::describe(),
        slice_ms: settings.load.slice_ms,
        stages: Vec::new(),
        policies: Vec::new(),
    };
    if !options.only_policies {
        for (plan, scope) in sizes(options) {
            results.stages.push(stage::run(&settings, plan, scope)?);
        }
    }
    if !options.no_policies {
        results.policies = pods::run(&pods::Settings {
            weft: settings.weft.clone(),
            rounds: settings.load.rounds,
            slice_ms: settings.load.slice_ms,
            cases: options.policy_cases.clone(),
            crowds: options.policy_crowds,
        })?;
    }
    report::write(&results, &options.out)?;
    println!("{}", report::terminal(&results));
    println!("tables and plots are in {}", options.out.display());
    Ok(())
}

fn settings(options: &Options) -> Settings {
    let pick = |full, quick| if options.quick { quick } else { full };
    Settings {
        peers: options.peers.clone(),
        kubernetes: options.kubernetes.clone(),
        weft: options.weft.clone(),
        load: Load {
            rounds: options.rounds.unwrap_or(pick(40, 12) as u32),
            slice_ms: 250,
        },
        kube_proxy_changes: pick(20, 8) as u32,
        weft_changes: pick(200, 50) as u32,
        sync_bound: Duration::from_secs(options.sync_bound.unwrap_or(pick(180, 150))),
    }
}

fn sizes(options: &Options) -> Vec<(Plan, Scope)> {
    let mut sizes = if !options.sizes.is_empty() {
        let plans = options.sizes.iter();
        plans.map(|plan| (*plan, Scope::All)).collect()
    } else if options.quick {
        QUICK.to_vec()
    } else {
        FULL.to_vec()
    };
    if options.no_requests {
        for (_, scope) in &mut sizes {
            *scope = Scope::Connections;
        }
    }
    sizes
}

fn parse_plan(text: &str) -> Result<Plan, String> {
    let parsed = text.split_once('x').and_then(|(services, endpoints)| {
        Some(Plan {
            services: services.parse().ok()?,
            endpoints: endpoints.parse().ok()?,
        })
    });
    let fits = |plan: &Plan| {
        (1..=30_000).contains(&plan.services)
            && (2..=100).contains(&plan.endpoints)
            && plan.endpoints.is_multiple_of(2)
            && plan.services * plan.endpoints <= 1_000_000
    };
    parsed.filter(fits).ok_or_else(|| {
        "want SERVICESxENDPOINTS such as 500x50: up to 30000 services, 2 to 100 endpoints \
         (even), a million endpoints in all"
            .to_owned()
    })
}
