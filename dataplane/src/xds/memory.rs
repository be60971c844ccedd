//! What the client remembers from one stream to the next.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use weft_proto::resource::ResourceType;

/// Which flavour of ADS the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Delta,
    StateOfTheWorld,
}

/// Endpoints that clusters ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) since: Instant,
    pub(super) answered: bool,
}

pub(super) struct Memory {
    pub(super) variant: Variant,
    /// Types that this server has refused.
    pub(super) unsupported: BTreeSet<ResourceType>,
    /// Versions of resources in effect, by name. An empty version: the engine has it, but it is not wholly in effect, so the
    /// server shall send it again, and say so if it is gone.
    pub(super) versions: HashMap<ResourceType, HashMap<String, String>>,
    /// Last version accepted as a whole (state of the world).
    pub(super) world_versions: HashMap<ResourceType, String>,
    /// Nonce of the last response of each type on this stream (state of the world).
    pub(super) nonces: HashMap<ResourceType, String>,
    pub(super) endpoints: BTreeMap<String, Asked>,
    pub(super) answered: BTreeSet<ResourceType>,
    pub(super) synced: bool,
    /// The engine was told that all policies and workloads are there.
    pub(super) policies_known: bool,
    /// When the first stream was open.
    pub(super) first_stream: Option<Instant>,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            variant: Variant::Delta,
            unsupported: BTreeSet::new(),
            versions: HashMap::new(),
            world_versions: HashMap::new(),
            nonces: HashMap::new(),
            endpoints: BTreeMap::new(),
            answered: BTreeSet::new(),
            synced: false,
            policies_known: false,
            first_stream: None,
        }
    }

    /// Types that are subscribed to as a whole.
    pub(super) fn wildcards(&self) -> impl Iterator<Item = ResourceType> + '_ {
        ResourceType::ALL
            .into_iter()
            .filter(|t| t.is_for_agents())
            .filter(|t| *t != ResourceType::Endpoints && !self.unsupported.contains(t))
    }

    pub(super) fn is_subscribed(&self, resource_type: ResourceType) -> bool {
        match resource_type {
            ResourceType::Endpoints => !self.endpoints.is_empty(),
            other => !self.unsupported.contains(&other),
        }
    }

    pub(super) fn subscribe(&mut self, names: &[String], now: Instant) {
        for name in names {
            let asked = Asked {
                since: now,
                answered: false,
            };
            self.endpoints.insert(name.clone(), asked);
            self.forget(ResourceType::Endpoints, name);
        }
    }

    pub(super) fn unsubscribe(&mut self, names: &[String]) {
        for name in names {
            self.endpoints.remove(name);
            self.forget(ResourceType::Endpoints, name);
        }
    }

    pub(super) fn forget(&mut self, resource_type: ResourceType, name: &str) {
        if let Some(versions) = self.versions.get_mut(&resource_type) {
            versions.remove(name);
        }
    }

    pub(super) fn answered_endpoints(&mut self, name: &str) {
        if let Some(asked) = self.endpoints.get_mut(name) {
            asked.answered = true;
        }
    }

    /// Endpoints that have been asked for longer ago than `wait` and not been answered.
    pub(super) fn overdue(&self, wait: Duration, now: Instant) -> Vec<String> {
        self.unanswered()
            .filter(|(_, asked)| now.saturating_duration_since(asked.since) >= wait)
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn unanswered(&self) -> impl Iterator<Item = (&String, &Asked)> {
        self.endpoints.iter().filter(|(_, asked)| !asked.answered)
    }

    /// Whether all that is waited for is here.
    pub(super) fn is_complete(&self, optional_wait: Duration, now: Instant) -> bool {
        let has = |t: ResourceType| self.answered.contains(&t);
        let waited = self
            .first_stream
            .is_some_and(|at| now.saturating_duration_since(at) >= optional_wait);
        let optional = |t: ResourceType| has(t) || self.unsupported.contains(&t) || waited;
        has(ResourceType::Cluster)
            && has(ResourceType::Listener)
            && optional(ResourceType::Policy)
            && optional(ResourceType::Workload)
            && optional(ResourceType::Problem)
            && self.unanswered().next().is_none()
    }

    /// Whether all policies and workloads are here. Time alone does not make it so: without its policies a pod stays shut.
    pub(super) fn knows_policies(&self) -> bool {
        let types = [ResourceType::Policy, ResourceType::Workload];
        types
            .iter()
            .all(|t| self.answered.contains(t) || self.unsupported.contains(t))
    }

    /// When to look again though nothing was received.
    pub(super) fn next_deadline(
        &self,
        endpoints_wait: Duration,
        optional_wait: Duration,
        now: Instant,
    ) -> Option<Instant> {
        let endpoints = self.unanswered().map(|(_, a)| a.since).min();
        let endpoints = endpoints.and_then(|at| at.checked_add(endpoints_wait));
        let optional = match self.synced {
            true => None,
            false => self
                .first_stream
                .and_then(|at| at.checked_add(optional_wait))
                .filter(|at| *at > now),
        };
        [endpoints, optional].into_iter().flatten().min()
    }
}
