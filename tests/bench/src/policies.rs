//! What a change of policy costs the agent: compiling, and writing to maps of the kernel.
//!
//! A node with local pods, a cluster of pods that all differ in their labels, and as many policies as asked for, of the usual kinds.
//! One policy after the other is changed, and the time until the maps are written is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use weft_dataplane::bpf::{self, MapSizes, PinDir};
use weft_dataplane::interfaces::{InterfaceIndex, LocalInterfaces};
use weft_dataplane::policy::{PolicyConfig, PolicyEngine};
use weft_dataplane::tables::policy::Verdict;
use weft_lab::bpffs::BpfFs;
use weft_proto::model::policy::{
    Cidr, Direction, Effect, Expr, LabelCondition, LabelRequirement, Match, Mode, ObjectRef,
    Pattern, Policy, Rule, Selector, StringMatch, Tier,
};
use weft_proto::model::{Workload, WorkloadKind};

use crate::stats::quantile;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Policies
    #[arg(long, default_value_t = 1_000)]
    policies: u32,
    /// Pods of the cluster, each an identity of its own
    #[arg(long, default_value_t = 5_000)]
    identities: u32,
    /// Pods of this node
    #[arg(long, default_value_t = 120)]
    local: u32,
    /// Policies that are changed
    #[arg(long, default_value_t = 1_000)]
    changes: u32,
}

const NODE: &str = "n1";
const NAMESPACES: u32 = 50;

/// Measures and prints.
///
/// # Errors
/// When the kernel refuses the maps.
pub fn run(options: &Options) -> Result<()> {
    let bpffs = BpfFs::mount(&format!("weft-bench-{}", std::process::id()))?;
    let mut engine = engine(&bpffs.path().join("pins"))?;
    for index in 0..options.identities {
        let pod = pod(index, index < options.local);
        engine.set_workload(&pod.name.clone(), pod);
    }
    for index in 0..options.policies {
        let policy = policy(index, 0);
        engine.set_policy(&policy.name.clone(), policy);
    }
    engine.set_interfaces(interfaces(options.local));
    engine.set_synced();
    let start = Instant::now();
    engine.apply();
    println!(
        "{} policies over {} identities for {} local pods: {:.1} ms from nothing",
        options.policies,
        options.identities,
        options.local,
        millis(start.elapsed())
    );
    report(
        "one policy changed",
        (0..options.changes).map(|index| {
            let policy = policy(index % options.policies, 1 + index / options.policies);
            time(&mut engine, |engine| {
                engine.set_policy(&policy.name.clone(), policy);
            })
        }),
    );
    report(
        "one pod of a new identity",
        (0..options.changes).map(|index| {
            let pod = pod(options.identities + index, false);
            time(&mut engine, |engine| {
                engine.set_workload(&pod.name.clone(), pod);
            })
        }),
    );
    for map in engine.usage() {
        println!("  {}: {} of {}", map.name, map.entries, map.capacity);
    }
    Ok(())
}

fn engine(pins: &Path) -> Result<PolicyEngine> {
    let pins = PinDir::create(pins).context("making a folder for maps")?;
    let loaded = bpf::load(&pins, &MapSizes::default()).context("loading")?;
    let config = PolicyConfig {
        node: NODE.to_owned(),
        default: Verdict::Allow,
        opens_tunnels: false,
    };
    Ok(PolicyEngine::new(loaded.policy_tables()?, config)?)
}

fn time(engine: &mut PolicyEngine, change: impl FnOnce(&mut PolicyEngine)) -> f64 {
    let start = Instant::now();
    change(engine);
    engine.apply();
    millis(start.elapsed())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn report(what: &str, samples: impl Iterator<Item = f64>) {
    let samples: Vec<f64> = samples.collect();
    let at = |share| quantile(&samples, share).unwrap_or_default();
    println!(
        "{what}: p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms ({} times)",
        at(0.5),
        at(0.99),
        at(1.0),
        samples.len()
    );
}

fn address(index: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + 256 + index).into()
}

fn namespace(index: u32) -> String {
    format!("ns{}", index % NAMESPACES)
}

fn pod(index: u32, local: bool) -> Workload {
    let namespace = namespace(index);
    let labels = [
        ("app".to_owned(), format!("app{}", index / NAMESPACES % 20)),
        ("pod".to_owned(), format!("{index}")),
    ];
    Workload {
        name: format!("pod/{namespace}/{index}"),
        kind: WorkloadKind::Pod,
        addresses: vec![address(index)],
        node: if local { NODE } else { "n2" }.to_owned(),
        zone: String::new(),
        service_account: "default".to_owned(),
        spiffe_id: format!("spiffe://cluster.local/ns/{namespace}/sa/default"),
        namespace,
        labels: labels.into(),
        host_network: false,
        unaccelerated: false,
        out_of_mesh: false,
        mtls: Default::default(),
        ports: Vec::new(),
    }
}

fn interfaces(local: u32) -> LocalInterfaces {
    let index = |index: u32| NonZeroU32::new(index + 1).map(InterfaceIndex);
    let pods = (0..local).filter_map(|pod| Some((address(pod), index(pod)?)));
    LocalInterfaces {
        pods: pods.collect(),
        host: BTreeSet::new(),
        settled: true,
    }
}

fn label(key: &str, value: String) -> Match {
    let text = StringMatch {
        pattern: Pattern::Exact(value),
        ignore_case: false,
    };
    Match::Label(key.to_owned(), Some(text))
}

/// One in four selects a whole namespace, the others an application; each allows one application, one namespace, or a prefix
/// without a part of it, to some ports.
fn policy(index: u32, version: u32) -> Policy {
    let namespace = namespace(index);
    let exact = |text: &str| StringMatch {
        pattern: Pattern::Exact(text.to_owned()),
        ignore_case: false,
    };
    let app = label("app", format!("app{}", (index + version) % 20));
    let peer = match index % 3 {
        0 => Expr::All(vec![
            Expr::Is(Match::Namespace(exact(&namespace))),
            Expr::Is(app),
        ]),
        1 => Expr::Is(Match::Namespace(exact(&self::namespace(index + 1)))),
        _ => Expr::All(vec![
            Expr::Is(Match::Address(prefix(0xc000_0000 + (index << 8), 24))),
            Expr::Not(Box::new(Expr::Is(Match::Address(prefix(
                0xc000_0000 + (index << 8) + ((version % 8) << 4),
                28,
            ))))),
        ]),
    };
    let port = 1_000 + (index % 50 + version % 7) as u16;
    let ports = Expr::Is(Match::Ports(port, port + (index % 3) as u16));
    let direction = match index % 2 {
        0 => Direction::Ingress,
        _ => Direction::Egress,
    };
    let (source, destination) = match direction {
        Direction::Ingress => (peer, ports),
        Direction::Egress => (Expr::Any, Expr::All(vec![peer, ports])),
    };
    let rule = Rule {
        source,
        destination,
    };
    let app = LabelRequirement {
        key: "app".to_owned(),
        is: LabelCondition::In(BTreeSet::from([format!("app{}", index / NAMESPACES % 3)])),
    };
    Policy {
        name: format!("{namespace}/p{index}"),
        origin: ObjectRef {
            kind: "NetworkPolicy".to_owned(),
            namespace: namespace.clone(),
            name: format!("p{index}"),
        },
        selector: Selector {
            namespaces: Some(BTreeSet::from([namespace])),
            labels: if index.is_multiple_of(4) {
                Vec::new()
            } else {
                vec![app]
            },
        },
        direction,
        tier: Tier::Namespace,
        priority: 0,
        mode: Mode::Enforce,
        effect: Effect::Allow,
        rules: BTreeMap::from([("r0".to_owned(), rule)]),
    }
}

fn prefix(bits: u32, prefix: u8) -> Cidr {
    let address = Ipv4Addr::from_bits(bits).into();
    Cidr { address, prefix }
}
