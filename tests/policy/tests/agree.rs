//! The node decides as the specifications say: random clusters in, packets through the loaded programs.
//!
//! `WEFT_SEED=N` begins with another seed, `WEFT_CASES=N` compares so many verdicts about first packets.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};
use weft_policy_test::compare::{Comparison, Count};
use weft_policy_test::evaluate::DefaultPolicy;
use weft_policy_test::generate::Random;
use weft_policy_test::node::{Node, with_node};
use weft_policy_test::scenario::{Disagreement, Scenario};
use weft_policy_test::shrink::shrink;

const CASES: usize = 100_000;
const CHANGES: usize = 5;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn kernel_and_specifications_agree() {
    let seed = setting("WEFT_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let cases = setting("WEFT_CASES").map_or(CASES, |n| n as usize);
    eprintln!("WEFT_SEED={seed}");
    let start = Instant::now();
    let counts = thread::scope(|scope| {
        let workers = [(DefaultPolicy::Allow, 0), (DefaultPolicy::Deny, 1)];
        let workers = workers.map(|(default, number)| {
            scope.spawn(move || {
                with_node(default, |node| {
                    agree(node, default, (seed * 2 + number) << 24, cases / 2)
                })
            })
        });
        workers.map(|worker| worker.join().unwrap().unwrap())
    });
    let [a, b] = counts;
    eprintln!(
        "{} verdicts about first packets and {} about later ones agree, {} of them let through, in {} clusters and {:.0?}",
        a.0.first + b.0.first,
        a.0.later + b.0.later,
        a.0.allowed + b.0.allowed,
        a.1 + b.1,
        start.elapsed(),
    );
    assert!(a.0.first + b.0.first >= cases);
}

/// Compares until there are enough cases; how much was compared, in how many clusters.
fn agree(
    node: &mut Node,
    default: DefaultPolicy,
    first: u64,
    cases: usize,
) -> Result<(Count, usize)> {
    let mut comparison = Comparison::default();
    let mut clusters = 0;
    for seed in first.. {
        if comparison.count.first >= cases {
            break;
        }
        let mut random = Random::new(seed);
        let scenario = Scenario::random(&mut random, default, CHANGES);
        clusters += scenario.steps.len();
        if let Some((step, found)) = comparison.run(node, &scenario, &mut random)? {
            let until = Scenario {
                steps: scenario.steps[..=step].to_vec(),
                ..scenario
            };
            bail!(
                "scenario {seed}, the first was {first}\n{}",
                least(node, until, &found)
            );
        }
    }
    Ok((comparison.count, clusters))
}

/// As few manifests as it takes.
fn least(node: &mut Node, scenario: Scenario, found: &Disagreement) -> String {
    let mut last = None;
    let mut fails = |scenario: &Scenario| {
        let found = Comparison::replay(node, scenario, &found.connection);
        found.is_ok_and(|found| {
            let fails = found.is_some();
            last = found.or(last.take());
            fails
        })
    };
    if !fails(&scenario) {
        return format!("{found}\n# Only after the scenarios before it.\n{scenario}");
    }
    let least = shrink(scenario, fails);
    let found = last.as_ref().unwrap_or(found);
    let problems = match node.apply(&least.steps[least.steps.len() - 1]) {
        Ok(()) => node.problems(),
        Err(error) => vec![error.to_string()],
    };
    format!("{found}\n{least}# Problems: {problems:#?}")
}
