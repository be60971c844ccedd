//! `metav1.Condition`s.
//!
//! <https://kubernetes.io/docs/reference/using-api/api-concepts/> and, for names and reasons, the Gateway API's policy
//! attachment (GEP-713): <https://gateway-api.sigs.k8s.io/geps/gep-713/>.

use serde_json::{Value, json};
use weft_proto::model::{Problem, Severity};

use super::board::Verdict;
use super::routes;
use crate::object::{Kind, Subject};

/// Characters of a message: what `kubectl get` shows, and no more.
const MAX_MESSAGE: usize = 1024;

/// What one condition is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) kind: &'static str,
    pub(super) holds: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Condition {
    /// It holds.
    pub(super) fn holding(kind: &'static str, message: &str) -> Self {
        Self {
            kind,
            holds: true,
            reason: kind,
            message: message.to_owned(),
        }
    }

    /// It does not, because of these.
    pub(super) fn failing(kind: &'static str, reason: &'static str, problems: &[&Problem]) -> Self {
        let lines: Vec<String> = problems
            .iter()
            .map(|p| match p.field.as_str() {
                "" => p.message.clone(),
                field => format!("{field}: {}", p.message),
            })
            .collect();
        Self {
            kind,
            holds: false,
            reason,
            message: cut(lines.join("; ")),
        }
    }

    /// As JSON. The moment of the last transition stays with the status that it was about.
    pub(super) fn json(&self, subject: &Subject, before: &[Value], now: &str) -> Value {
        let status = if self.holds { "True" } else { "False" };
        let is_same = |c: &&Value| c["type"] == self.kind && c["status"] == status;
        let since = before.iter().find(is_same);
        let since = since.and_then(|c| c["lastTransitionTime"].as_str());
        json!({
            "type": self.kind,
            "status": status,
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": subject.generation,
            "lastTransitionTime": since.unwrap_or(now),
        })
    }
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_MESSAGE) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The status that the object should have, if it has another. `now` is RFC 3339 in UTC.
pub(super) fn status(verdict: &Verdict, now: &str) -> Option<Value> {
    let subject = verdict.subject.as_ref()?;
    let kind = verdict.reference.kind;
    if matches!(kind, Kind::HTTPRoute | Kind::GRPCRoute) {
        return routes::status(subject, &verdict.problems, now);
    }
    let before = subject.status["conditions"].as_array();
    let before = before.map_or(&[][..], Vec::as_slice);
    let accepted = accepted(kind, &verdict.problems);
    let condition = accepted.json(subject, before, now);
    let is_there = before.contains(&condition);
    (!is_there).then(|| json!({"conditions": [condition]}))
}

fn accepted(kind: Kind, problems: &[Problem]) -> Condition {
    let targets: Vec<&Problem> = problems
        .iter()
        .filter(|p| p.field == "spec.targetRefs")
        .collect();
    let errors: Vec<&Problem> = problems
        .iter()
        .filter(|p| p.severity == Severity::Error && p.field != "spec.targetRefs")
        .collect();
    if !errors.is_empty() {
        return Condition::failing("Accepted", "Invalid", &errors);
    }
    if kind == Kind::TrafficPolicy && !targets.is_empty() {
        // An error is another policy that comes first; a warning, a service that is not there.
        let lost = targets.iter().any(|p| p.severity == Severity::Error);
        let reason = if lost { "Conflicted" } else { "TargetNotFound" };
        return Condition::failing("Accepted", reason, &targets);
    }
    Condition::holding("Accepted", "in effect")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectRef;

    const THEN: &str = "2026-01-01T00:00:00Z";
    const NOW: &str = "2026-01-02T00:00:00Z";

    fn problem(field: &str, severity: Severity) -> Problem {
        Problem {
            origin: String::new(),
            object: "TrafficPolicy shop/p".to_owned(),
            field: field.to_owned(),
            message: "is wrong".to_owned(),
            severity,
        }
    }

    fn verdict(status: Value, problems: Vec<Problem>) -> Verdict {
        Verdict {
            reference: ObjectRef::parse("TrafficPolicy shop/p").unwrap(),
            subject: Some(Subject {
                api_version: "weft.io/v1alpha1".to_owned(),
                generation: 3,
                resource_version: "7".to_owned(),
                parents: Vec::new(),
                status,
            }),
            problems,
        }
    }

    fn reason(problems: Vec<Problem>) -> Value {
        status(&verdict(Value::Null, problems), NOW).unwrap()["conditions"][0]["reason"].take()
    }

    #[test]
    fn reasons_follow_from_problems() {
        assert_eq!(reason(Vec::new()), "Accepted");
        let target = |severity| vec![problem("spec.targetRefs", severity)];
        assert_eq!(reason(target(Severity::Warning)), "TargetNotFound");
        assert_eq!(reason(target(Severity::Error)), "Conflicted");
        assert_eq!(
            reason(vec![problem("spec.timeouts", Severity::Error)]),
            "Invalid"
        );
        assert_eq!(
            reason(vec![problem("spec.timeouts", Severity::Warning)]),
            "Accepted"
        );
    }

    #[test]
    fn what_is_written_once_is_not_written_again() {
        let first = status(&verdict(Value::Null, Vec::new()), THEN).unwrap();
        assert_eq!(status(&verdict(first.clone(), Vec::new()), NOW), None);
        let failing = vec![problem("spec", Severity::Error)];
        let second = status(&verdict(first.clone(), failing), NOW).unwrap();
        assert_eq!(second["conditions"][0]["lastTransitionTime"], NOW);
        // Another generation, the same verdict: since when stays.
        let mut newer = verdict(first, Vec::new());
        newer.subject.as_mut().unwrap().generation = 4;
        let third = status(&newer, NOW).unwrap();
        assert_eq!(third["conditions"][0]["lastTransitionTime"], THEN);
        assert_eq!(third["conditions"][0]["observedGeneration"], 4);
    }
}
