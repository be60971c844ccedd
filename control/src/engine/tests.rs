//! Whatever the order of events: what is published is what the objects that are left would give from scratch.

mod pieces;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use weft_proto::resource::ResourceType;

use super::{Engine, Settings};
use crate::ads::Store;
use crate::object::{Object, ObjectRef};
use crate::read::Reading;
use crate::source::Event;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// One object of a small world, in which all depends on all.
fn manifest() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(&NAMES[..]);
    let created = || prop::sample::select(&["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"][..]);
    prop_oneof![
        (name(), 1..3u8, name(), any::<bool>(), created()).prop_map(
            |(name, vip, app, named, created)| json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": name, "creationTimestamp": created},
                "spec": {
                    "clusterIPs": [format!("10.96.0.{vip}"), "10.96.0.9"],
                    "selector": {"app": app},
                    "ports": [{"port": 80, "targetPort": if named { json!("web") } else { json!(8080) }}],
                },
            })
        ),
        (name(), name(), name(), 1..4u8, any::<bool>(), 1..3u32).prop_map(
            |(name, app, node, ip, ready, weight)| json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": name, "labels": {"app": app, "tier": "x"},
                    "annotations": {"weft.io/weight": weight.to_string()},
                },
                "spec": {"nodeName": node, "containers": [
                    {"name": "c", "ports": [{"name": "web", "containerPort": 8080 + u16::from(ip)}]},
                ]},
                "status": {
                    "podIP": format!("10.0.0.{ip}"),
                    "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
                },
            })
        ),
        balancer(),
        (name(), name(), 1..3u8).prop_map(|(name, zone, ip)| json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"addresses": [{"type": "InternalIP", "address": format!("172.16.0.{ip}")}]},
        })),
        (name(), name(), 1..4u8, prop::option::of(name()), any::<bool>()).prop_map(
            |(name, service, ip, pod, ready)| json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
                "addressType": "IPv4",
                "ports": [{"port": 8080}],
                "endpoints": [{
                    "addresses": [format!("10.0.0.{ip}")],
                    "conditions": {"ready": ready},
                    "targetRef": pod.map(|name| json!({"kind": "Pod", "name": name})),
                }],
            })
        ),
        (
            name(),
            name(),
            prop::option::of(Just(80)),
            prop::collection::vec(name(), 0..3),
            created()
        )
            .prop_map(|(name, parent, port, backends, created)| {
                let backends = backends.iter().map(|b| json!({"name": b, "port": 80}));
                json!({
                    "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                    "metadata": {"name": name, "creationTimestamp": created},
                    "spec": {
                        "parentRefs": [{"group": "", "kind": "Service", "name": parent, "port": port}],
                        "rules": [{"backendRefs": backends.collect::<Vec<_>>()}],
                    },
                })
            }),
        (name(), name(), created()).prop_map(|(name, target, created)| json!({
            "apiVersion": "weft.io/v1alpha1", "kind": "TrafficPolicy",
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {
                "targetRefs": [{"kind": "Service", "name": target}],
                "loadBalancing": {"policy": if name == "a" { "Maglev" } else { "RoundRobin" }},
            },
        })),
    ]
}

/// A service that clients outside reach, perhaps at what others want too.
fn balancer() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(&NAMES[..]);
    let local = prop::sample::select(&["Cluster", "Local"][..]);
    (name, 1..3u8, 1..3u16, local.clone(), local).prop_map(|(name, ip, port, inside, outside)| {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name},
            "spec": {
                "type": "LoadBalancer", "clusterIP": format!("10.96.0.{ip}"),
                "externalIPs": [format!("192.0.2.{ip}")],
                "internalTrafficPolicy": inside, "externalTrafficPolicy": outside,
                "loadBalancerSourceRanges": [format!("203.0.113.{ip}/32")],
                "healthCheckNodePort": 30000 + port,
                "ports": [{"port": 80, "nodePort": 30001}],
            },
            "status": {"loadBalancer": {"ingress": [{"ip": format!("198.51.100.{port}")}]}},
        })
    })
}

/// Policies whose meaning depends on namespaces, which come and go with their labels and with pods.
fn policy() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(&NAMES[..]);
    let selector = || {
        prop_oneof![
            Just(json!({})),
            name().prop_map(|team| json!({"matchLabels": {"team": team}})),
            name().prop_map(|team| json!({"matchExpressions": [
                {"key": "team", "operator": "NotIn", "values": [team]},
            ]})),
            name().prop_map(|n| json!({"matchLabels": {"kubernetes.io/metadata.name": n}})),
        ]
    };
    prop_oneof![
        (name(), name()).prop_map(|(name, team)| json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": team}},
        })),
        (name(), name(), 1..4u8).prop_map(|(name, namespace, ip)| json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "status": {"podIP": format!("10.0.1.{ip}")},
        })),
        (name(), selector()).prop_map(|(name, selector)| json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": name},
            "spec": {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": selector}]}]},
        })),
        (name(), selector(), selector(), 0..3usize).prop_map(
            |(name, subject, peer, rules)| json!({
                "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
                "metadata": {"name": name},
                "spec": {
                    "tier": "Admin", "priority": 1, "subject": {"namespaces": subject},
                    "egress": vec![json!({"action": "Deny", "to": [{"namespaces": peer}]}); rules],
                },
            })
        ),
    ]
}

fn object(manifest: &Value) -> Object {
    let mut reading = Reading::default();
    reading.add(manifest.clone(), &Arc::from("x.yaml:1"));
    let item = reading.items.pop().unwrap();
    assert!(item.sound, "{:?}", reading.problems);
    item.object.unwrap()
}

/// What happens to the world: an object is written, or one is taken away.
#[derive(Clone, Debug)]
enum Step {
    Write(Value),
    Remove(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => manifest().prop_map(Step::Write),
        2 => policy().prop_map(Step::Write),
        1 => any::<usize>().prop_map(Step::Remove),
    ]
}

/// Names and versions of all that is published.
fn published(store: &Store) -> BTreeMap<(ResourceType, String), String> {
    store.read(|snapshot| {
        ResourceType::ALL
            .into_iter()
            .flat_map(|t| snapshot.table(t).iter().map(move |(n, e)| (t, n, e)))
            .map(|(t, name, entry)| ((t, name.to_string()), entry.version.to_string()))
            .collect()
    })
}

struct World {
    engine: Engine,
    store: Arc<Store>,
}

impl World {
    fn new() -> Self {
        let store = Arc::new(Store::default());
        let mut world = Self {
            engine: Engine::new(Arc::clone(&store), Settings::default()),
            store,
        };
        world.tell(Event::Synced);
        world
    }

    fn tell(&mut self, event: Event) {
        let mut batch = crate::ads::Batch::default();
        self.engine.take(event, &mut batch);
        self.engine.translate(&mut batch);
        self.engine.publish_batch(batch);
    }

    /// Names of what is new or another with `object`.
    fn changed(&mut self, object: Object) -> Vec<String> {
        let before = published(&self.store);
        self.tell(Event::Applied(object));
        let after = published(&self.store).into_iter();
        after
            .filter(|(name, version)| before.get(name) != Some(version))
            .map(|((_, name), _)| name)
            .collect()
    }
}

proptest! {
    #[test]
    fn any_history_ends_as_its_end_from_scratch(steps in prop::collection::vec(step(), 1..40)) {
        let mut world = World::new();
        let mut left: BTreeMap<ObjectRef, Object> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Write(manifest) => {
                    let object = object(&manifest);
                    left.insert(object.reference(), object.clone());
                    world.tell(Event::Applied(object));
                }
                Step::Remove(which) => {
                    let Some(reference) = left.keys().nth(which % left.len().max(1)).cloned() else {
                        continue;
                    };
                    left.remove(&reference);
                    world.tell(Event::Deleted(reference));
                }
            }
        }
        let mut fresh = World::new();
        for object in left.into_values() {
            fresh.tell(Event::Applied(object));
        }
        prop_assert_eq!(published(&world.store), published(&fresh.store));
        prop_assert_eq!(published(&world.engine.envoys()), published(&fresh.engine.envoys()));
    }
}

#[test]
fn a_problem_that_comes_and_goes_at_once_leaves_nothing() {
    let store = Arc::new(Store::default());
    let (sender, events) = mpsc::channel(8);
    let problem = weft_proto::model::Problem {
        origin: "x.yaml:1".to_owned(),
        object: String::new(),
        field: String::new(),
        message: "bad".to_owned(),
        severity: weft_proto::model::Severity::Error,
    };
    for event in [
        Event::Synced,
        Event::Problems("x.yaml".to_owned(), vec![problem.clone()]),
        Event::Problems("y.yaml".to_owned(), vec![problem]),
        Event::Problems("x.yaml".to_owned(), Vec::new()),
        Event::Problems("y.yaml".to_owned(), Vec::new()),
    ] {
        sender.try_send(vec![event]).unwrap();
    }
    drop(sender);
    Engine::new(Arc::clone(&store), Settings::default()).run(events);
    assert!(published(&store).is_empty());
}

#[test]
fn a_change_touches_the_policies_that_it_concerns_and_no_others() {
    let mut world = World::new();
    let namespace = |name: &str, team: &str| {
        object(&json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": team}},
        }))
    };
    let policy = |name: &str, team: &str, port: u16| {
        object(&json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name},
            "spec": {"podSelector": {}, "ingress": [{
                "from": [{"namespaceSelector": {"matchLabels": {"team": team}}}],
                "ports": [{"port": port}],
            }]},
        }))
    };
    world.tell(Event::Applied(namespace("a", "red")));
    for (name, team) in [("red", "red"), ("blue", "blue")] {
        world.tell(Event::Applied(policy(name, team, 80)));
    }
    let mut changed = |object| world.changed(object);
    let red = "networkpolicy/default/red#ingress";
    let blue = "networkpolicy/default/blue#ingress";
    assert_eq!(changed(policy("red", "red", 81)), [red]);
    assert_eq!(changed(namespace("b", "red")), [red]);
    assert_eq!(changed(namespace("b", "blue")), [blue, red]);
    assert!(changed(namespace("c", "green")).is_empty());
    assert!(changed(namespace("c", "yellow")).is_empty());
}

#[test]
fn a_change_touches_the_listeners_that_have_the_address_and_no_others() {
    let mut world = World::new();
    let node = |ip: &str| {
        object(&json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
            "status": {"addresses": [{"type": "InternalIP", "address": ip}]},
        }))
    };
    let service = |name: &str, kind: &str, ip: u8, ingress: &[&str]| {
        let ingress = ingress.iter().map(|ip| json!({"ip": ip}));
        object(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {
                "type": kind, "clusterIP": format!("10.96.0.{ip}"),
                "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000 + u16::from(ip),
                "ports": [{"port": 80, "nodePort": 30000 + u16::from(ip)}],
            },
            "status": {"loadBalancer": {"ingress": ingress.collect::<Vec<_>>()}},
        }))
    };
    world.tell(Event::Applied(node("172.16.0.1")));
    for (name, kind, ip) in [
        ("plain", "ClusterIP", 1),
        ("nodes", "NodePort", 2),
        ("balanced", "LoadBalancer", 3),
    ] {
        world.tell(Event::Applied(service(name, kind, ip, &[])));
    }
    let mut changed = |object| world.changed(object);
    assert_eq!(
        changed(service("balanced", "LoadBalancer", 3, &["198.51.100.3"])),
        [
            "default/balanced:80/tcp",
            "default/balanced:80/tcp@outside-balancer"
        ]
    );
    assert_eq!(
        changed(node("172.16.0.2")),
        [
            "default/balanced:80/tcp@nodes",
            "default/balanced:80/tcp@outside-nodes",
            "default/nodes:80/tcp@nodes",
            "default/nodes:80/tcp@outside-nodes",
            "node/n1",
        ]
    );
}
