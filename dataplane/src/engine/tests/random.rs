//! Random histories against the plain statement in [`super::model`], with small tables, failing writes and restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use weft_proto::model::{Endpoint, Health, LbPolicy, Locality, LocalityMode, Resource};
use weft_proto::resource::ResourceType;

use super::kernel::{Kernel, Sizes};
use super::model::{NODE, Node, World, cluster, listener, pod, vip};
use crate::tables::ServiceKey;

const VIPS: [&str; 5] = [
    "10.96.0.1",
    "10.96.0.2",
    "10.96.0.3",
    "fd00:96::1",
    "fd00:96::2",
];

#[derive(Clone, Debug)]
enum Step {
    Cluster(usize, Option<(LbPolicy, LocalityMode, Option<u32>)>),
    Endpoints(usize, Option<Vec<Endpoint>>),
    Listener(usize, Option<(Vec<usize>, usize)>),
    Workload(u8, bool),
    /// The operations to come fail like this.
    Faults(Vec<Option<usize>>),
    Restart,
    /// The agent is killed during the next step, after so many operations.
    Kill(usize),
    Pass,
}

fn endpoint() -> impl Strategy<Value = (SocketAddr, Endpoint)> {
    let address = prop_oneof![
        4 => (1u8..8).prop_map(|n| SocketAddr::from((Ipv4Addr::new(10, 0, 0, n), 80))),
        1 => (1u16..4).prop_map(|n| SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, n], 80))),
    ];
    let health = prop_oneof![
        4 => Just(Health::Healthy),
        1 => Just(Health::Draining),
        1 => Just(Health::Unhealthy),
    ];
    let node = prop_oneof![Just(NODE), Just("there")];
    let priority = prop_oneof![3 => Just(0u32), 1 => Just(1)];
    (address, 1u32..5, health, node, priority).prop_map(
        |(address, weight, health, node, priority)| {
            let locality = Locality {
                zone: String::new(),
                node: node.to_owned(),
            };
            let endpoint = Endpoint {
                address,
                weight,
                priority,
                health,
                locality,
            };
            (address, endpoint)
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let policy = prop_oneof![
        Just(LbPolicy::Random),
        Just(LbPolicy::RoundRobin),
        Just(LbPolicy::LeastRequest),
        Just(LbPolicy::Maglev),
    ];
    let locality = prop_oneof![
        3 => Just(LocalityMode::None),
        1 => Just(LocalityMode::PreferNode),
        1 => Just(LocalityMode::NodeOnly),
    ];
    let limit = prop::option::weighted(0.4, 1u32..3);
    let endpoints = vec(endpoint(), 0..7).prop_map(|list| {
        let unique: BTreeMap<_, _> = list.into_iter().collect();
        unique.into_values().collect::<Vec<_>>()
    });
    let vips = btree_set(0usize..VIPS.len(), 1..3).prop_map(|s| s.into_iter().collect::<Vec<_>>());
    prop_oneof![
        4 => (0usize..3, option(8, (policy, locality, limit))).prop_map(|(c, v)| Step::Cluster(c, v)),
        8 => (0usize..3, option(8, endpoints)).prop_map(|(c, v)| Step::Endpoints(c, v)),
        6 => (0usize..4, option(3, (vips, 0usize..3))).prop_map(|(l, v)| Step::Listener(l, v)),
        2 => (1u8..8, any::<bool>()).prop_map(|(n, there)| Step::Workload(n, there)),
        3 => vec(prop::option::weighted(0.3, 0usize..4), 1..12).prop_map(Step::Faults),
        2 => Just(Step::Restart),
        2 => (0usize..8).prop_map(Step::Kill),
        1 => Just(Step::Pass),
    ]
}

/// `Some` this many times out of one more.
fn option<T: Strategy>(weight: u32, some: T) -> impl Strategy<Value = Option<T::Value>>
where
    T::Value: Clone,
{
    prop_oneof![1 => Just(None), weight => some.prop_map(Some)]
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let slots = prop_oneof![4usize..40, 1_000usize..4_000];
    (2usize..8, slots, 2usize..30).prop_map(|(services, slots, backends)| Sizes {
        services,
        slots,
        backends,
    })
}

fn name(index: usize) -> String {
    format!("n{index}")
}

/// Changes the world, and tells the node.
fn take(step: &Step, world: &mut World, node: &mut Node) {
    match step {
        Step::Cluster(c, Some((policy, locality, limit))) => {
            let mut cluster = cluster(&name(*c), *policy, *locality);
            cluster.max_connections = *limit;
            world.clusters.insert(name(*c), cluster.clone());
            let applied = node.set(Resource::Cluster(cluster));
            node.answer(&applied, world);
        }
        Step::Cluster(c, None) => {
            world.clusters.remove(&name(*c));
            node.remove(ResourceType::Cluster, &name(*c));
        }
        Step::Endpoints(c, Some(list)) => {
            world.endpoints.insert(name(*c), list.clone());
            node.set_endpoints(&name(*c), list.clone());
        }
        Step::Endpoints(c, None) => {
            world.endpoints.remove(&name(*c));
            node.remove(ResourceType::Endpoints, &name(*c));
        }
        Step::Listener(l, Some((vips, c))) => {
            let vips: Vec<&str> = vips.iter().map(|v| VIPS[*v]).collect();
            let listener = listener(&name(*l), &vips, &name(*c));
            world.listeners.insert(name(*l), listener.clone());
            node.set(Resource::Listener(listener));
        }
        Step::Listener(l, None) => {
            world.listeners.remove(&name(*l));
            node.remove(ResourceType::Listener, &name(*l));
        }
        Step::Workload(n, true) => {
            let pod = pod(&format!("pod/x/{n}"), Ipv4Addr::new(10, 0, 0, *n).into());
            world.workloads.insert(pod.name.clone(), pod.clone());
            node.set(Resource::Workload(pod));
        }
        Step::Workload(n, false) => {
            let name = format!("pod/x/{n}");
            world.workloads.remove(&name);
            node.remove(ResourceType::Workload, &name);
        }
        Step::Faults(faults) => node.kernel.set_faults(faults.iter().copied()),
        Step::Kill(after) => {
            // To the tables, an agent that fails at everything is a dead one.
            let alive = std::iter::repeat_n(None, *after);
            let dead = std::iter::repeat_n(Some(0), 1_000);
            node.kernel.set_faults(alive.chain(dead));
        }
        Step::Restart => restart(world, node),
        Step::Pass => node.pass(Duration::from_secs(60)),
    }
}

/// A new agent over the same tables, told the same: nothing may change that was in order.
fn restart(world: &World, node: &mut Node) {
    node.kernel.set_faults([]);
    node.pass(Duration::from_secs(60));
    let in_order = node
        .engine
        .rejections()
        .iter()
        .all(|(_, r)| !r.reason.contains("map "));
    let before = node.kernel.dump();
    node.kernel.take_closed();
    *node = Node::starting(&node.kernel);
    node.replay(world);
    node.sync();
    node.pass(Duration::from_secs(60));
    if in_order {
        assert_eq!(node.kernel.dump(), before, "a restart is not to be seen");
        assert!(node.kernel.take_closed().is_empty(), "nor to be felt");
    }
}

/// Every VIP leads where the world says, or the node says why not.
fn check(world: &World, node: &Node) {
    let closed = node.kernel.take_closed();
    for address in VIPS {
        let vip = vip(address);
        let landing = node.kernel.landing(&vip);
        let expected = world.expected(&vip);
        let excused = world.owner(&vip).is_some_and(|owner| {
            let reason = node.engine.rejection(ResourceType::Listener, &owner.name);
            reason.is_some_and(|r| r.contains("map ") && r.contains("full"))
        });
        match (landing, expected) {
            (landing, _) if excused => {
                // An older set or none; what it leads to is there, or `landing` had panicked.
                drop(landing);
            }
            (None, None) => {}
            (Some(landing), Some((weights, policy))) => {
                compare(&vip, &landing, &weights, policy);
                assert_eq!(node.kernel.limit(&vip), world.limit(&vip), "{vip:?}");
            }
            (landing, expected) => panic!("{vip:?}: {landing:?} instead of {expected:?}"),
        }
    }
    let dump = node.kernel.dump();
    for slot in dump.slots.values() {
        assert!(
            !closed.contains(&slot.backend),
            "{:?} was closed",
            slot.backend
        );
    }
}

fn compare(
    vip: &ServiceKey,
    landing: &BTreeMap<SocketAddr, f64>,
    weights: &BTreeMap<SocketAddr, u32>,
    policy: LbPolicy,
) {
    let total: u32 = weights.values().sum();
    assert!(
        landing.keys().eq(weights.keys()),
        "{vip:?}: {landing:?} instead of {weights:?}"
    );
    // Maglev's table rounds to whole slots, of which there are at least 251.
    let tolerance = match policy {
        LbPolicy::Maglev => 0.01,
        _ => 1e-6,
    };
    for (address, share) in landing {
        let exact = f64::from(weights[address]) / f64::from(total);
        assert!(
            (share - exact).abs() < tolerance,
            "{vip:?} {address}: {share} for {exact}"
        );
    }
}

/// Nothing stays behind that nobody needs.
fn check_leftovers(node: &Node) {
    let dump = node.kernel.dump();
    let mut generations: Vec<_> = dump
        .services
        .values()
        .map(|e| (e.id, e.generation))
        .collect();
    generations.sort_unstable();
    generations.dedup();
    let rejections = node.engine.rejections();
    let waiting = rejections
        .iter()
        .any(|(_, r)| r.reason.contains("map services is full"));
    for key in dump.slots.keys() {
        // Slots of a VIP that finds no room are ready for when it does.
        let known = waiting || generations.contains(&(key.service, key.generation));
        assert!(known, "{key:?} belongs to no VIP");
    }
    for map in node.engine.summary().maps {
        let counted = match map.name {
            "services" => dump.services.len(),
            "slots" => dump.slots.len(),
            "backends" => dump.backends.len(),
            "backend_loads" => node.kernel.loads.with(|m| m.len()),
            "service_settings" => node.kernel.settings.with(|m| m.len()),
            "service_states" => node.kernel.states.with(|m| m.len()),
            "cursors" => node.kernel.cursors.with(|m| m.len()),
            _ => continue,
        };
        assert_eq!(map.entries, counted, "use of {}", map.name);
    }
    assert_eq!(node.kernel.loads.with(|m| m.len()), dump.backends.len());
    let limited = dump.services.values().filter(|e| e.flags.need_settings());
    let limited: BTreeSet<_> = limited.map(|e| e.id).collect();
    let settings = node.kernel.settings.with(|m| m.len());
    // Those of a VIP that finds no room are ready as well.
    assert!(settings == limited.len() || !rejections.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_connects_land_where_they_should(
        sizes in sizes(),
        steps in vec(step(), 1..40),
    ) {
        let kernel = Kernel::new(sizes);
        let mut world = World::default();
        let mut node = Node::started(&kernel);
        let mut dying = false;
        for step in &steps {
            take(step, &mut world, &mut node);
            node.assert_sound();
            if std::mem::take(&mut dying) {
                node.kernel.set_faults([]);
                node = Node::starting(&kernel);
                node.replay(&world);
                node.sync();
            }
            dying = matches!(step, Step::Kill(_));
            if !matches!(step, Step::Faults(_) | Step::Kill(_)) {
                // What failed is made up for.
                node.kernel.set_faults([]);
                node.pass(Duration::from_secs(60));
                node.assert_sound();
                check(&world, &node);
                check_leftovers(&node);
            }
        }
    }
}
