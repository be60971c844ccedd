//! Random histories against [`super::evaluate`], with small tables, failing writes and restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use proptest::collection::vec;
use proptest::prelude::*;
use weft_proto::model::policy::{Direction, IpProtocol};

use super::evaluate::{Expected, Port, evaluate};
use super::kernel::{Answer, Kernel, Sizes};
use super::steps::{ADDRESSES, PODS, Step, step};
use super::world::{Node, World, ip};
use crate::tables::policy::{RuleReason, Verdict};

/// A connection of a local pod, seen from it.
type Sample = (String, IpAddr, u32, Direction, IpAddr, Port);
type Answers = BTreeMap<usize, Option<Answer>>;

fn ports() -> Vec<Port> {
    let port = |protocol, number| Port { protocol, number };
    vec![
        port(Some(IpProtocol::Tcp), 80),
        port(Some(IpProtocol::Tcp), 82),
        port(Some(IpProtocol::Tcp), 40_000),
        port(Some(IpProtocol::Udp), 80),
        port(Some(IpProtocol::Udp), 53),
        port(Some(IpProtocol::Sctp), 80),
        port(Some(IpProtocol::Icmp), 0),
        port(None, 0),
    ]
}

/// Every connection there can be.
fn samples(world: &World) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (pod, own, interface) in world.local() {
        for peer in ADDRESSES.map(ip) {
            if peer.is_ipv4() == own.is_ipv4() && peer != own {
                for direction in [Direction::Egress, Direction::Ingress] {
                    for port in ports() {
                        samples.push((pod.name.clone(), own, interface, direction, peer, port));
                    }
                }
            }
        }
    }
    samples
}

fn expected(world: &World, (pod, own, _, direction, peer, port): &Sample) -> Expected {
    evaluate(world, &world.workloads[pod], *own, *direction, *peer, *port)
}

fn ask(kernel: &Kernel, (_, _, interface, direction, peer, port): &Sample) -> Option<Answer> {
    kernel.judge(*direction, *interface, *peer, port.point())
}

/// Each connection is judged as the evaluator says, or the engine says why not.
fn check(world: &World, node: &Node) -> Result<(), TestCaseError> {
    for sample in samples(world) {
        let answer = ask(&node.kernel, &sample);
        let expected = expected(world, &sample);
        if node.engine.failed_pods().contains(&sample.0) {
            continue;
        }
        let Some(answer) = answer else {
            return Err(TestCaseError::fail(format!("{sample:?} is not ready")));
        };
        // Whoever found no room is refused, or those whose rules did not: only then, and only that.
        let not_ready = answer.reason == RuleReason::NoRoom;
        if answer.verdict == Verdict::Deny && (not_ready || expected.verdict == Verdict::Allow) {
            let is_full = node.engine.usage().iter().any(|map| map.full != 0);
            prop_assert!(is_full, "{:?} {:?}", sample, answer);
            continue;
        }
        let told = (answer.verdict, answer.audit != 0);
        prop_assert_eq!(
            told,
            (expected.verdict, expected.audited),
            "{:?} {:?}",
            sample,
            answer
        );
        let named = answer.rule == 0 || node.engine.rule(answer.rule).is_some();
        prop_assert!(named, "{:?} {:?}", sample, answer);
    }
    Ok(())
}

/// Nothing stays behind that nobody needs, and what is there is counted.
fn check_leftovers(node: &Node) -> Result<(), TestCaseError> {
    let kernel = &node.kernel;
    let used: BTreeSet<u32> = kernel.pods.with(|m| {
        let sets = m
            .values()
            .flat_map(|pod| [pod.egress.id.0, pod.ingress.id.0]);
        sets.collect()
    });
    let peers = kernel.peers.with(|m| m.keys().copied().collect::<Vec<_>>());
    let mut known: BTreeSet<u32> = kernel
        .identities
        .with(|m| m.values().map(|entry| entry.number.0).collect());
    known.extend(
        kernel
            .cidrs
            .with(|m| m.values().map(|n| n.0).collect::<Vec<_>>()),
    );
    for key in &peers {
        prop_assert!(used.contains(&key.set.0), "{:?} is of no set in use", key);
        prop_assert!(
            key.identity.0 < 16 || known.contains(&key.identity.0),
            "{:?} is nobody",
            key
        );
    }
    for map in node.engine.usage() {
        let counted = match map.name {
            "identities" => kernel.identities.with(|m| m.len()),
            "cidr_identities" => kernel.cidrs.with(|m| m.len()),
            "local_workloads" => kernel.pods.with(|m| m.len()),
            "peer_rules" => peers.len(),
            _ => continue,
        };
        prop_assert_eq!(map.entries, counted, "use of {}", map.name);
    }
    Ok(())
}

fn take(step: &Step, world: &mut World, node: &mut Node) {
    match step {
        Step::Policy(policy) => node.set_policy(world, policy.clone()),
        Step::NoPolicy(index) => {
            let name = format!("p{index}");
            world.policies.remove(&name);
            node.engine.remove_policy(&name);
            node.engine.apply();
        }
        Step::Workload(workload) => node.set_workload(world, workload.clone()),
        Step::NoWorkload(index) => {
            let name = format!("pod/{index}");
            world.workloads.remove(&name);
            node.engine.remove_workload(&name);
            node.engine.apply();
        }
        Step::Interface(index, there) => {
            let addresses = [
                Some(ADDRESSES[*index]),
                (*index < 2).then(|| ADDRESSES[PODS + index]),
            ];
            for address in addresses.into_iter().flatten().map(ip) {
                match there {
                    true => world.interfaces.insert(address, 100 + *index as u32),
                    false => world.interfaces.remove(&address),
                };
            }
            node.set_interfaces(world);
        }
        Step::Faults(faults) => node.kernel.set_faults(faults.iter().copied()),
        Step::Kill(after) => {
            // To the tables, an agent that fails at everything is a dead one.
            let alive = std::iter::repeat_n(None, *after);
            let dead = std::iter::repeat_n(Some(0), 1_000);
            node.kernel.set_faults(alive.chain(dead));
        }
        Step::Restart => *node = Node::started(&node.kernel, world),
    }
}

/// Too small for some histories: everywhere, or for addresses alone, so that all else goes in.
fn small() -> impl Strategy<Value = Sizes> {
    let rest = prop_oneof![
        1 => (1usize..5, 2usize..60, 2usize..60),
        1 => Just((Sizes::AMPLE.pods, Sizes::AMPLE.peers, Sizes::AMPLE.rules)),
    ];
    let sizes = (1usize..7, 1usize..9, rest);
    sizes.prop_map(|(identities, cidrs, (pods, peers, rules))| Sizes {
        identities,
        cidrs,
        pods,
        peers,
        rules,
    })
}

fn sizes() -> impl Strategy<Value = Sizes> {
    prop_oneof![1 => small(), 3 => Just(Sizes::AMPLE)]
}

fn default() -> impl Strategy<Value = Verdict> {
    prop::sample::select(vec![Verdict::Allow, Verdict::Deny])
}

fn settings(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(settings(200))]

    #[test]
    fn whatever_happens_connections_are_judged_as_policies_say(
        sizes in sizes(),
        default in default(),
        steps in vec(step(), 1..30),
    ) {
        let kernel = Kernel::new(sizes);
        let mut world = World::new(default);
        let mut node = Node::started(&kernel, &world);
        let mut dying = false;
        for step in &steps {
            take(step, &mut world, &mut node);
            if std::mem::take(&mut dying) {
                kernel.set_faults([]);
                node = Node::started(&kernel, &world);
            }
            dying = matches!(step, Step::Kill(_));
            if !matches!(step, Step::Faults(_) | Step::Kill(_)) {
                // What failed is made up for.
                kernel.set_faults([]);
                for _ in 0..2 {
                    node.engine.retry();
                }
                check(&world, &node)?;
                check_leftovers(&node)?;
            }
        }
    }

    /// At each step on the way from one state to the next, every connection is judged as before or as after.
    #[test]
    fn nothing_opens_or_closes_on_the_way(
        default in default(),
        steps in vec(step(), 1..16),
    ) {
        let kernel = Kernel::new(Sizes::AMPLE);
        let mut world = World::new(default);
        let mut node = Node::started(&kernel, &world);
        for step in &steps {
            if matches!(step, Step::Faults(_) | Step::Kill(_)) {
                continue;
            }
            let all: Arc<Vec<Sample>> = Arc::new(samples(&world).into_iter().step_by(7).collect());
            let answers = |kernel: &Kernel, all: &[Sample]| -> Answers {
                all.iter().map(|sample| ask(kernel, sample)).enumerate().collect()
            };
            let before = answers(&kernel, &all);
            let epoch = kernel.epoch();
            let seen: Arc<Mutex<Vec<(String, Answers)>>> = Arc::default();
            let (log, asked) = (Arc::clone(&seen), Arc::clone(&all));
            kernel.watch(Some(Box::new(move |kernel, operation| {
                let now = asked.iter().map(|sample| ask(kernel, sample)).enumerate().collect();
                log.lock().expect("no panic").push((operation.to_owned(), now));
            })));
            take(step, &mut world, &mut node);
            kernel.watch(None);
            let after = answers(&kernel, &all);
            let verdict = |answer: &Option<Answer>| answer.map(|answer| answer.verdict);
            for (operation, now) in seen.lock().expect("no panic").iter() {
                for (sample, answer) in now {
                    let now = verdict(answer);
                    let allowed = [verdict(&before[sample]), verdict(&after[sample])];
                    prop_assert!(
                        allowed.contains(&now),
                        "{:?} is {:?} after {}, not {:?}", all[*sample], now, operation, allowed
                    );
                }
            }
            let changed = all.iter().enumerate().any(|(sample, _)| {
                let ready = before[&sample].is_some() && after[&sample].is_some();
                ready && verdict(&before[&sample]) != verdict(&after[&sample])
            });
            prop_assert!(!changed || kernel.epoch() != epoch, "connections are not judged again");
        }
    }

    /// However little room there is and whatever fails: at no step is anything let through that neither was before nor should be.
    #[test]
    fn nothing_opens_for_want_of_room(
        sizes in small(),
        default in default(),
        steps in vec(step(), 1..16),
    ) {
        let kernel = Kernel::new(sizes);
        let mut world = World::new(default);
        let mut node = Node::started(&kernel, &world);
        for step in &steps {
            let all: Vec<Sample> = samples(&world).into_iter().step_by(7).collect();
            let is_open = |kernel: &Kernel, sample: &Sample| {
                ask(kernel, sample).is_some_and(|answer| answer.verdict == Verdict::Allow)
            };
            let shut: Arc<Vec<Sample>> =
                Arc::new(all.into_iter().filter(|sample| !is_open(&kernel, sample)).collect());
            let opened: Arc<Mutex<BTreeMap<usize, String>>> = Arc::default();
            let (log, asked) = (Arc::clone(&opened), Arc::clone(&shut));
            kernel.watch(Some(Box::new(move |kernel, operation| {
                let open = asked.iter().enumerate().filter(|(_, sample)| is_open(kernel, sample));
                let mut log = log.lock().expect("no panic");
                for (sample, _) in open {
                    log.entry(sample).or_insert_with(|| operation.to_owned());
                }
            })));
            take(step, &mut world, &mut node);
            node.engine.retry();
            kernel.watch(None);
            // Judged by the policies before: there is no room for those it should have.
            let stale = node.engine.failed_pods();
            for (sample, operation) in opened.lock().expect("no panic").iter() {
                let sample = &shut[*sample];
                // Nobody is at a pod's end any more once it is gone.
                let there = world.workloads.get(&sample.0).is_some_and(|pod| pod.addresses.contains(&sample.1));
                prop_assert!(
                    !there || stale.contains(&sample.0) || expected(&world, sample).verdict == Verdict::Allow,
                    "{:?} is let through after {}", sample, operation
                );
            }
        }
    }

    /// A new agent over the same tables, told the same, changes nothing but the epoch.
    #[test]
    fn a_restart_is_not_to_be_seen(
        default in default(),
        steps in vec(step(), 1..16),
    ) {
        let kernel = Kernel::new(Sizes::AMPLE);
        let mut world = World::new(default);
        let mut node = Node::started(&kernel, &world);
        for step in steps.iter().filter(|s| !matches!(s, Step::Faults(_) | Step::Kill(_))) {
            take(step, &mut world, &mut node);
        }
        let dump = |kernel: &Kernel| {
            let identities = kernel.identities.with(|m| m.clone());
            let peers = kernel.peers.with(|m| m.clone());
            (identities, kernel.cidrs.with(|m| m.clone()), kernel.pods.with(|m| m.clone()), peers)
        };
        let before = dump(&kernel);
        let mut node = Node::starting(&kernel, &world);
        // Before it knows everything it leaves all as it is.
        node.engine.set_interfaces(world.interfaces());
        node.engine.apply();
        prop_assert_eq!(&dump(&kernel), &before);
        node.replay(&world);
        check(&world, &node)?;
        prop_assert_eq!(dump(&kernel), before);
    }
}
