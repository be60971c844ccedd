//! Status of HTTPRoute and GRPCRoute: conditions for each parent that is a Service.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#routeparentstatus>

use serde_json::{Value, json};
use weft_proto::model::{Problem, Severity};

use super::CONTROLLER;
use super::conditions::Condition;
use crate::object::Subject;

/// The status that the route should have, if it has another. What other controllers say in it stays.
pub(super) fn status(subject: &Subject, problems: &[Problem], now: &str) -> Option<Value> {
    let before = subject.status["parents"].as_array();
    let before = before.map_or(&[][..], Vec::as_slice);
    let is_ours = |entry: &&Value| entry["controllerName"] == CONTROLLER;
    let ours: Vec<&Value> = before.iter().filter(is_ours).collect();
    let new: Vec<Value> = subject
        .parents
        .iter()
        .enumerate()
        .filter(|(_, parent)| is_service(parent))
        .map(|(i, parent)| entry(subject, i, parent, problems, &ours, now))
        .collect();
    if ours.len() == new.len() && ours.iter().zip(&new).all(|(a, b)| **a == *b) {
        return None;
    }
    let others = before.iter().filter(|entry| !is_ours(entry)).cloned();
    Some(json!({"parents": others.chain(new).collect::<Vec<_>>()}))
}

fn is_service(parent: &Value) -> bool {
    parent["kind"] == "Service" && matches!(parent["group"].as_str(), Some("" | "core"))
}

fn entry(
    subject: &Subject,
    index: usize,
    parent: &Value,
    problems: &[Problem],
    before: &[&Value],
    now: &str,
) -> Value {
    let old = before.iter().find(|entry| entry["parentRef"] == *parent);
    let old = old.and_then(|entry| entry["conditions"].as_array());
    let old = old.map_or(&[][..], Vec::as_slice);
    let conditions = [accepted(index, problems), resolved(problems)];
    json!({
        "controllerName": CONTROLLER,
        "parentRef": parent,
        "conditions": conditions.map(|c| c.json(subject, old, now)),
    })
}

/// Whether the route is attached to this parent.
fn accepted(index: usize, problems: &[Problem]) -> Condition {
    let parent = format!("spec.parentRefs[{index}]");
    let errors = problems.iter().filter(|p| p.severity == Severity::Error);
    let (of_parents, others): (Vec<_>, Vec<_>) = errors
        .filter(|p| unresolved(p).is_none())
        .partition(|p| p.field.starts_with("spec.parentRefs["));
    let of_this: Vec<&Problem> = of_parents
        .into_iter()
        .filter(|p| p.field.starts_with(&parent))
        .collect();
    if !of_this.is_empty() {
        return Condition::failing("Accepted", "NoMatchingParent", &of_this);
    }
    if !others.is_empty() {
        return Condition::failing("Accepted", "UnsupportedValue", &others);
    }
    Condition::holding("Accepted", "attached")
}

/// Whether all that it refers to is there.
fn resolved(problems: &[Problem]) -> Condition {
    let errors = problems.iter().filter(|p| p.severity == Severity::Error);
    let missing: Vec<&Problem> = errors.filter(|p| unresolved(p).is_some()).collect();
    match missing.first().and_then(|p| unresolved(p)) {
        Some(reason) => Condition::failing("ResolvedRefs", reason, &missing),
        None => Condition::holding("ResolvedRefs", "all backends are there"),
    }
}

/// Why a backend cannot be resolved, if that is what the problem is about.
fn unresolved(problem: &Problem) -> Option<&'static str> {
    let (_, last) = problem.field.rsplit_once(".backendRef")?;
    // "s[0]" or "", and then perhaps a field of it.
    let (_, field) = last.split_once('.').unwrap_or(("", ""));
    match field {
        "" => Some("BackendNotFound"),
        "kind" => Some("InvalidKind"),
        "namespace" => Some("RefNotPermitted"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T00:00:00Z";

    fn subject(status: Value) -> Subject {
        Subject {
            api_version: "gateway.networking.k8s.io/v1".to_owned(),
            generation: 1,
            resource_version: "7".to_owned(),
            parents: vec![
                json!({"group": "", "kind": "Service", "name": "cart"}),
                json!({"name": "gateway"}),
                json!({"group": "", "kind": "Service", "name": "lost"}),
            ],
            status,
        }
    }

    fn problem(field: &str) -> Problem {
        Problem {
            origin: String::new(),
            object: "HTTPRoute shop/r".to_owned(),
            field: field.to_owned(),
            message: "is wrong".to_owned(),
            severity: Severity::Error,
        }
    }

    /// "Accepted" and "ResolvedRefs" of each parent, by reason.
    fn reasons(problems: &[Problem]) -> Vec<[String; 2]> {
        let status = status(&subject(Value::Null), problems, NOW).unwrap();
        let parents = status["parents"].as_array().unwrap();
        let reason =
            |p: &Value, i: usize| p["conditions"][i]["reason"].as_str().unwrap().to_owned();
        parents
            .iter()
            .map(|p| [reason(p, 0), reason(p, 1)])
            .collect()
    }

    fn both(accepted: &str, resolved: &str) -> [String; 2] {
        [accepted.to_owned(), resolved.to_owned()]
    }

    #[test]
    fn each_service_has_its_conditions() {
        let fine = both("Accepted", "ResolvedRefs");
        assert_eq!(reasons(&[]), [fine.clone(), fine.clone()]);
        let lost = reasons(&[problem("spec.parentRefs[2]")]);
        assert_eq!(lost, [fine, both("NoMatchingParent", "ResolvedRefs")]);
    }

    #[test]
    fn backends_that_are_missing_are_named() {
        for (field, reason) in [
            ("spec.rules[0].backendRefs[1]", "BackendNotFound"),
            ("spec.rules[0].backendRefs[1].kind", "InvalidKind"),
            (
                "spec.rules[0].filters[0].requestMirror.backendRef.namespace",
                "RefNotPermitted",
            ),
        ] {
            let expected = both("Accepted", reason);
            assert_eq!(reasons(&[problem(field)]), [expected.clone(), expected]);
        }
        let filter = reasons(&[problem("spec.rules[0].backendRefs[1].filters[0]")]);
        assert_eq!(filter[0], both("UnsupportedValue", "ResolvedRefs"));
    }

    #[test]
    fn what_others_say_stays_and_nothing_is_written_twice() {
        let other = json!({"controllerName": "example.com/gateway", "parentRef": {"name": "gateway"}, "conditions": []});
        let first = status(&subject(json!({"parents": [other.clone()]})), &[], NOW).unwrap();
        assert_eq!(first["parents"][0], other);
        assert_eq!(first["parents"].as_array().unwrap().len(), 3);
        assert_eq!(status(&subject(first), &[], "2027-01-01T00:00:00Z"), None);
    }
}
