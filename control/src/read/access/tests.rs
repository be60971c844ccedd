//! However a policy is mangled, nobody panics, and it does not let through what it refused before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use weft_proto::model::Severity;
use weft_proto::model::policy::{Effect, Expr, Policy};

use crate::model::Model;
use crate::object::{Namespace, Object, ObjectName, Spec};
use crate::read::Reading;
use crate::translate;

/// A policy of each kind that refuses everything to everybody, in every way that the kind knows.
fn refusing() -> Vec<Value> {
    let istio = |action: &str, rules: Value| {
        json!({
            "apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy",
            "metadata": {"name": "p", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "action": action, "rules": rules},
        })
    };
    let source = json!([{"source": {"ipBlocks": ["10.0.0.1"], "notPrincipals": ["a*"]}}]);
    let operation = json!([{"operation": {"ports": ["80"], "methods": ["GET"]}}]);
    let when = json!([{"key": "source.ip", "values": ["10.0.0.0/8"], "notValues": ["10.0.0.1"]}]);
    vec![
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "p", "namespace": "shop"},
            "spec": {
                "podSelector": {
                    "matchLabels": {"app": "a"},
                    "matchExpressions": [{"key": "b", "operator": "In", "values": ["c"]}],
                },
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{
                    "from": [
                        {"namespaceSelector": {"matchLabels": {"x": "y"}}, "podSelector": {}},
                        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                    ],
                    "ports": [{"port": 80, "endPort": 90, "protocol": "TCP"}, {"port": "web"}],
                }],
                "egress": [],
            },
        }),
        json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
            "metadata": {"name": "p"},
            "spec": {
                "tier": "Admin", "priority": 5,
                "subject": {"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "a"}}}},
                "ingress": [{
                    "name": "n", "action": "Deny",
                    "from": [{"namespaces": {"matchLabels": {"x": "y"}}}],
                    "protocols": [{"tcp": {"destinationPort": {"range": {"start": 1, "end": 9}}}}],
                }],
                "egress": [{"action": "Deny", "to": [{"networks": ["10.0.0.0/8"]}, {"nodes": {}}]}],
            },
        }),
        istio(
            "DENY",
            json!([{"from": source, "to": operation, "when": when}]),
        ),
        istio(
            "ALLOW",
            json!([{"from": source, "to": operation, "when": when}]),
        ),
    ]
}

/// The places in a document that say something about whom it is for and what it does, as JSON pointers.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    if path.starts_with("/spec") || path == "/metadata/name" {
        found.push(path.to_owned());
    }
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(inner, &format!("{path}/{key}"), found);
            }
        }
        Value::Array(list) => {
            for (i, inner) in list.iter().enumerate() {
                places(inner, &format!("{path}/{i}"), found);
            }
        }
        _ => {}
    }
}

fn garbage() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(-1)),
        Just(json!(1e300)),
        Just(json!("!")),
        Just(json!([[]])),
        Just(json!({"unheard-of": {}})),
        Just(json!({"matchLabels": {"": ""}})),
        Just(json!(["!"])),
        Just(json!(true)),
    ]
}

/// What is published for one document in a small cluster, and the number of errors.
fn policies(document: &Value) -> (Vec<Policy>, usize) {
    let mut reading = Reading::default();
    reading.add(document.clone(), &Arc::from("x.yaml:1"));
    let mut model = Model::default();
    model.apply(Object {
        name: ObjectName::new("", "bank"),
        origin: Arc::from(""),
        created: None,
        spec: Spec::Namespace(Arc::new(Namespace::with_labels(
            "bank",
            BTreeMap::from([("x".to_owned(), "y".to_owned())]),
        ))),
    });
    let mut all = Vec::new();
    for item in reading.items {
        let reference = item.reference.clone();
        model.apply(item.object.expect("a policy is never lost"));
        all.extend(translate::access(&model, &reference, "istio-system"));
    }
    let errors = reading.problems.iter();
    let errors = errors.filter(|p| p.severity == Severity::Error).count();
    (all, errors)
}

/// Directions that are isolated, and what is let through and refused there, as far as it can be compared: whom a policy selects
/// may grow, and rules that let through may go.
struct Meaning {
    isolated: BTreeSet<String>,
    lets_through: BTreeSet<String>,
    refuses_all: BTreeSet<String>,
    refuses: BTreeSet<String>,
}

fn meaning(policies: &[Policy]) -> Meaning {
    let mut meaning = Meaning {
        isolated: BTreeSet::new(),
        lets_through: BTreeSet::new(),
        refuses_all: BTreeSet::new(),
        refuses: BTreeSet::new(),
    };
    for policy in policies {
        let direction = format!("{:?} {:?}", policy.tier, policy.direction);
        if policy.effect == Effect::Allow {
            meaning.isolated.insert(direction.clone());
        }
        for rule in policy.rules.values() {
            let text = format!("{direction} {} {}", rule.source, rule.destination);
            match policy.effect {
                Effect::Allow | Effect::Pass => meaning.lets_through.insert(text),
                Effect::Deny if rule.source == Expr::Any && rule.destination == Expr::Any => {
                    meaning
                        .refuses_all
                        .insert(format!("{:?}", policy.direction))
                }
                Effect::Deny => meaning.refuses.insert(text),
            };
        }
    }
    meaning
}

#[test]
fn what_is_meant_for_another_version_opens_nothing() {
    for (good, version) in refusing().iter().zip([
        "extensions/v1beta1",
        "policy.networking.k8s.io/v1alpha1",
        "security.istio.io/v2",
        "security.istio.io/v2",
    ]) {
        let mut other = good.clone();
        other["apiVersion"] = json!(version);
        let (before, _) = policies(good);
        let (after, errors) = policies(&other);
        assert_eq!(errors, 1, "{version}");
        let (before, after) = (meaning(&before), meaning(&after));
        assert!(before.isolated.is_subset(&after.isolated), "{version}");
        assert!(before.refuses.is_subset(&after.refuses) || !after.refuses_all.is_empty());
        assert!(after.lets_through.is_empty(), "{version}");
    }
    // Somebody else's policy of the same name means something else.
    let mut foreign = refusing().swap_remove(0);
    foreign["apiVersion"] = json!("crd.projectcalico.org/v1");
    let (after, errors) = policies(&foreign);
    assert_eq!((after, errors), (Vec::new(), 1));
}

proptest! {
    #[test]
    fn garbage_opens_nothing(which in 0..4usize, place in any::<prop::sample::Index>(), garbage in garbage()) {
        let good = &refusing()[which];
        let mut all = Vec::new();
        places(good, "", &mut all);
        let mut bad = good.clone();
        let place = place.get(&all);
        *bad.pointer_mut(place).unwrap() = garbage;

        let (before, none) = policies(good);
        prop_assert_eq!(none, 0);
        let (after, errors) = policies(&bad);
        let (before, after) = (meaning(&before), meaning(&after));
        // It made sense after all: another name, another attribute.
        if errors == 0 {
            return Ok(());
        }
        prop_assert!(before.isolated.is_subset(&after.isolated), "{place}: isolated no more");
        let new: Vec<_> = after.lets_through.difference(&before.lets_through).collect();
        prop_assert!(new.is_empty(), "{place}: lets through {new:?}");
        for lost in before.refuses.difference(&after.refuses) {
            let direction = if lost.contains("Ingress") { "Ingress" } else { "Egress" };
            let shut = after.lets_through.is_empty()
                && after.isolated.iter().any(|d| d.ends_with(direction));
            prop_assert!(shut || after.refuses_all.contains(direction), "{place}: {lost} is not refused any more");
        }
    }
}
