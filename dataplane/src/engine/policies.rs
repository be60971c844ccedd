//! Policies as people wrote them: one row for each object, of which the control plane has made one policy for each direction.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weft_proto::model::policy::{Direction, Effect, Mode, ObjectRef, Tier};
use weft_proto::model::{Problem, Severity};
use weft_proto::wire::admin::v1 as wire;

use super::Engine;
use crate::flow::object;
use crate::policy::view::PolicyView;

/// Who asks a policy's rules.
const KERNEL: &str = "kernel";
/// And its layer 4 part the kernel.
const ENVOY: &str = "envoy";
const NO_ENVOY: &str =
    "asks about requests, and this node has no Envoy: what depends on that is refused";

impl Engine {
    /// Objects by kind, namespace and name.
    #[must_use]
    pub fn policy_objects(&self) -> Vec<wire::Policy> {
        let mut rows: BTreeMap<ObjectRef, wire::Policy> = BTreeMap::new();
        for policy in self.policies.views() {
            let row = rows
                .entry(policy.origin.clone())
                .or_insert_with(|| self.policy_row(&policy));
            add(&mut row.directions, direction(policy.direction));
            add(&mut row.effects, effect(policy.effect));
            row.enforced_by = match (policy.asks_proxy, row.enforced_by.as_str()) {
                (true, _) | (_, ENVOY) => ENVOY,
                _ => KERNEL,
            }
            .to_owned();
            let lacks_proxy = policy.asks_proxy && !self.config.has_proxy;
            if lacks_proxy && !policy.workloads.is_empty() {
                row.problems.push(wire::ConfigProblem {
                    object: policy.name.clone(),
                    message: NO_ENVOY.to_owned(),
                    severity: "error".to_owned(),
                    ..Default::default()
                });
            }
            row.rules += u32::try_from(policy.rules).unwrap_or(u32::MAX);
            for pod in &policy.workloads {
                add(&mut row.pods, pod.strip_prefix("pod/").unwrap_or(pod));
            }
            row.problems
                .extend(policy.problem.map(|reason| wire::ConfigProblem {
                    object: policy.name,
                    message: reason,
                    severity: "error".to_owned(),
                    ..Default::default()
                }));
        }
        rows.into_values().collect()
    }

    /// The policy that refuses to this local address what no rule lets in, as people call it.
    #[must_use]
    pub fn isolating(&self, address: IpAddr) -> Option<String> {
        self.policies.isolating(address).map(object)
    }

    fn policy_row(&self, policy: &PolicyView) -> wire::Policy {
        let origin = &policy.origin;
        let name = object(origin);
        let problems = self.resources.problems.values();
        wire::Policy {
            kind: origin.kind.clone(),
            namespace: origin.namespace.clone(),
            name: origin.name.clone(),
            tier: tier(policy.tier).to_owned(),
            priority: policy.priority,
            mode: mode(policy.mode).to_owned(),
            problems: problems
                .filter(|problem| problem.object == name)
                .map(problem_row)
                .collect(),
            ..Default::default()
        }
    }
}

fn add(words: &mut Vec<String>, word: &str) {
    if !words.iter().any(|known| known == word) {
        words.push(word.to_owned());
        words.sort_unstable();
    }
}

/// As `weft status` shows it.
pub(crate) fn problem_row(problem: &Problem) -> wire::ConfigProblem {
    wire::ConfigProblem {
        origin: problem.origin.clone(),
        object: problem.object.clone(),
        field: problem.field.clone(),
        message: problem.message.clone(),
        severity: match problem.severity {
            Severity::Error => "error".to_owned(),
            Severity::Warning => "warning".to_owned(),
        },
    }
}

const fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => "egress",
        Direction::Ingress => "ingress",
    }
}

const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allow",
        Effect::Deny => "deny",
        Effect::Pass => "pass",
    }
}

const fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Admin => "admin",
        Tier::Namespace => "namespace",
        Tier::Baseline => "baseline",
        Tier::Mesh => "mesh",
    }
}

const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Audit => "audit",
    }
}
