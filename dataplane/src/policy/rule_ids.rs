//! Numbers of rules, as rules in the kernel and events carry them, and what they stand for.

use std::collections::{HashMap, VecDeque};

use weft_proto::model::policy::{ObjectRef, Policy};

use super::view::RuleView;

/// Rules of policies that are gone stay readable for this many more: events may still name them.
const KEPT: usize = 10_000;

/// Number to rule. A rule keeps its number over restarts, but for the rare ones that collide.
#[derive(Debug, Default)]
pub(super) struct RuleIds {
    rules: HashMap<u32, RuleView>,
    gone: VecDeque<u32>,
}

/// The name under which a policy stands that selects, where none of its rules decides.
pub(super) const SELECTS: &str = "";

impl RuleIds {
    /// The number of `rule` of `policy`.
    pub(super) fn number(&mut self, policy: &Policy, rule: &str) -> u32 {
        let mut number = hash(&policy.name, rule);
        loop {
            match self.rules.get_mut(&number) {
                _ if number == 0 => {}
                Some(known) if known.policy == policy.name && known.rule == rule => {
                    known.current = true;
                    known.origin.clone_from(&policy.origin);
                    return number;
                }
                Some(_) => {}
                None => {
                    self.rules
                        .insert(number, view(policy, &policy.origin, rule));
                    return number;
                }
            }
            number = number.wrapping_add(1);
        }
    }

    /// These are in no set any more.
    pub(super) fn retire(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            if let Some(rule) = self.rules.get_mut(&number) {
                rule.current = false;
                self.gone.push_back(number);
            }
        }
        while self.gone.len() > KEPT {
            if let Some(number) = self.gone.pop_front()
                && self.rules.get(&number).is_some_and(|rule| !rule.current)
            {
                self.rules.remove(&number);
            }
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&RuleView> {
        self.rules.get(&number)
    }
}

fn view(policy: &Policy, origin: &ObjectRef, rule: &str) -> RuleView {
    RuleView {
        policy: policy.name.clone(),
        origin: origin.clone(),
        rule: rule.to_owned(),
        current: true,
    }
}

/// FNV-1a of both names with a zero between them.
fn hash(policy: &str, rule: &str) -> u32 {
    let bytes = policy.bytes().chain([0]).chain(rule.bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
