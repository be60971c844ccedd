//! The least scenario that still goes wrong.

use serde_json::Value;

use crate::object::{Cluster, Document};
use crate::scenario::Scenario;

/// Takes away what can be taken away, as long as it `fails`: first steps, then objects, then parts of objects.
pub fn shrink(mut scenario: Scenario, mut fails: impl FnMut(&Scenario) -> bool) -> Scenario {
    loop {
        let before = scenario.clone();
        scenario = first_failing(scenario, without_a_step, &mut fails);
        scenario = first_failing(scenario, without_an_object, &mut fails);
        scenario = first_failing(scenario, without_a_part, &mut fails);
        if scenario == before {
            return scenario;
        }
    }
}

/// Goes from smaller to smaller one until none fails.
fn first_failing(
    mut scenario: Scenario,
    smaller: fn(&Scenario) -> Vec<Scenario>,
    fails: &mut impl FnMut(&Scenario) -> bool,
) -> Scenario {
    while let Some(next) = smaller(&scenario).into_iter().find(|s| fails(s)) {
        scenario = next;
    }
    scenario
}

fn without_a_step(scenario: &Scenario) -> Vec<Scenario> {
    let last = scenario.steps.len() - 1;
    let only = Scenario {
        steps: vec![scenario.steps[last].clone()],
        ..scenario.clone()
    };
    let without = (0..last).map(|step| {
        let mut smaller = scenario.clone();
        smaller.steps.remove(step);
        smaller
    });
    std::iter::once(only)
        .filter(|_| last > 0)
        .chain(without)
        .collect()
}

/// Without one object, at all steps; objects of the last step first.
fn without_an_object(scenario: &Scenario) -> Vec<Scenario> {
    let mut names: Vec<Document> = Vec::new();
    for document in scenario.steps.iter().rev().flat_map(Cluster::documents) {
        if !names.iter().any(|n| n.is_named_as(&document)) {
            names.push(document);
        }
    }
    let without = |gone: &Document| {
        let keep = |cluster: &Cluster| {
            let documents = cluster.documents().into_iter();
            documents.filter(|d| !d.is_named_as(gone)).collect()
        };
        scenario.steps.iter().map(keep).collect()
    };
    let all = names.iter().rev().map(without);
    all.map(|steps| Scenario { steps, ..*scenario }).collect()
}

/// With one object that lacks one part, wherever it stands so.
fn without_a_part(scenario: &Scenario) -> Vec<Scenario> {
    let mut all: Vec<Document> = Vec::new();
    for document in scenario.steps.iter().flat_map(Cluster::documents) {
        if !all.contains(&document) {
            all.push(document);
        }
    }
    let mut result = Vec::new();
    for document in &all {
        for smaller in parts(document) {
            let put = |cluster: &Cluster| {
                let documents = cluster.documents().into_iter();
                documents
                    .map(|d| if d == *document { smaller.clone() } else { d })
                    .collect()
            };
            result.push(Scenario {
                steps: scenario.steps.iter().map(put).collect(),
                ..*scenario
            });
        }
    }
    result
}

/// The document without one field or list item, wherever it may be left out.
fn parts(document: &Document) -> Vec<Document> {
    let Ok(value) = serde_json::to_value(document) else {
        return Vec::new();
    };
    let mut values = Vec::new();
    without_one(&value, &mut |smaller| values.push(smaller));
    values
        .into_iter()
        .filter_map(|value| serde_json::from_value::<Document>(value).ok())
        .filter(|smaller| smaller != document && smaller.object.is_valid())
        .collect()
}

/// Each value that lacks one field or item, at any depth.
fn without_one(value: &Value, found: &mut dyn FnMut(Value)) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let mut without = fields.clone();
                without.remove(key);
                found(Value::Object(without));
                without_one(field, &mut |smaller| {
                    let mut with = fields.clone();
                    with.insert(key.clone(), smaller);
                    found(Value::Object(with));
                });
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let mut without = items.clone();
                without.remove(index);
                found(Value::Array(without));
                without_one(item, &mut |smaller| {
                    let mut with = items.clone();
                    with[index] = smaller;
                    found(Value::Array(with));
                });
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::{DefaultPolicy, Side, Verdict};
    use crate::generate::{Boundaries, Random};

    /// What is left of a refused connection is one policy, the pod, and the other end.
    #[test]
    fn only_what_matters_is_left() {
        let mut random = Random::new(3);
        let scenario = Scenario::random(&mut random, DefaultPolicy::Allow, 3);
        let boundaries = Boundaries::of(scenario.last().cluster);
        let refused = (0..1000)
            .filter_map(|_| boundaries.connection(&mut random))
            .find(|c| {
                let verdict = scenario.last().judge(Side::Ingress, c);
                verdict.is_some_and(|j| j.verdict == Verdict::Deny)
            });
        let connection = refused.expect("something is refused");
        let least = shrink(scenario, |s| {
            let verdict = s.last().judge(Side::Ingress, &connection);
            verdict.is_some_and(|j| j.verdict == Verdict::Deny)
        });
        let cluster = &least.steps[0];
        assert_eq!(least.steps.len(), 1, "{least}");
        let policies = cluster.network_policies.len()
            + cluster.cluster_network_policies.len()
            + cluster.authorization_policies.len();
        assert_eq!((policies, cluster.namespaces.len()), (1, 0), "{least}");
        assert!(cluster.pods.len() <= 2, "{least}");
    }
}
