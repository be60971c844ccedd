//! What a policy set is made of.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::own::{Own, OwnAnswer};
use super::policy::CompiledPolicy;
use crate::tables::policy::Verdict;

/// A policy that selects a workload, and what its rules say of that workload.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) policy: Arc<CompiledPolicy>,
    /// One for each rule.
    pub(crate) own: Vec<OwnAnswer>,
}

/// The policies of one workload and direction, in the order in which they are asked. Equal plans make equal sets.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) parts: Vec<Part>,
    pub(crate) default: Verdict,
}

impl Plan {
    /// Whether Envoy may have to be asked about a connection.
    pub(crate) fn asks_proxy(&self) -> bool {
        self.parts.iter().any(|part| part.policy.asks_proxy)
    }
}

impl Part {
    pub(crate) fn new(policy: Arc<CompiledPolicy>, own: &Own<'_>) -> Self {
        let own = policy.rules.iter().map(|rule| own.answer(rule)).collect();
        Self { policy, own }
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.policy.version == other.policy.version && self.own == other.own
    }
}

impl Eq for Part {}

impl Hash for Part {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.policy.version.hash(state);
        self.own.hash(state);
    }
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.default == other.default && self.parts == other.parts
    }
}

impl Eq for Plan {}

impl Hash for Plan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts.hash(state);
    }
}
