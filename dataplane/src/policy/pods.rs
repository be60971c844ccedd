//! Local pods, the policies that select them, and the sets they are sent to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_proto::model::policy::{Cidr, Direction, Tier};
use weft_proto::model::{Policy, Workload};

use super::PolicyEngine;
use super::compile::{CompiledPolicy, CompiledSet, Own, Part, Plan};
use super::selector::selects;
use crate::tables::policy::{LocalWorkload, PolicySet, SetId};

/// A local pod whose interface is known.
#[derive(Debug)]
struct Pod {
    interface: u32,
    egress: Arc<Plan>,
    ingress: Arc<Plan>,
    /// Why it is not judged by these plans.
    failure: Option<String>,
}

/// Local pods by resource name.
#[derive(Debug, Default)]
pub(super) struct Pods {
    pods: BTreeMap<String, Pod>,
}

impl Pods {
    pub(super) fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        let pods = self.pods.iter();
        pods.filter_map(|(name, pod)| Some((name.as_str(), pod.failure.as_deref()?)))
    }
}

impl PolicyEngine {
    /// Local pods that are not judged by the policies that select them: all of them until their interfaces have been looked for,
    /// then those whose interface is known.
    pub fn unjudged(&self) -> impl Iterator<Item = &str> {
        let settled = self.owners.interfaces().settled;
        let pods = self.owners.local_pods();
        let pods = pods.filter(move |pod| !settled || self.interface(&pod.name, pod).is_some());
        let names = pods.map(|pod| pod.name.as_str());
        names.filter(|name| {
            let pod = self.pods.pods.get(*name);
            !self.synced || pod.is_none_or(|pod| pod.failure.is_some())
        })
    }

    /// Finds out which plans these pods are to be judged by, and mentions the prefixes of those; returns the prefixes that are new.
    pub(super) fn replan(&mut self, names: &BTreeSet<String>) -> BTreeSet<Cidr> {
        let mut changed = BTreeSet::new();
        for name in names {
            let pod = self.plan_pod(name);
            if let Some(pod) = &pod {
                changed.extend(self.mention(&pod.egress));
                changed.extend(self.mention(&pod.ingress));
            }
            let old = match pod {
                Some(pod) => self.pods.pods.insert(name.clone(), pod),
                None => self.pods.pods.remove(name),
            };
            if let Some(old) = old {
                changed.extend(self.release(&old.egress));
                changed.extend(self.release(&old.ingress));
            }
        }
        changed
    }

    fn plan_pod(&mut self, name: &str) -> Option<Pod> {
        let workload = self.owners.get(name).filter(|w| self.owners.is_local(w))?;
        let workload = workload.clone();
        Some(Pod {
            interface: self.interface(name, &workload)?,
            egress: self.plan(&workload, Direction::Egress),
            ingress: self.plan(&workload, Direction::Ingress),
            failure: None,
        })
    }

    /// That of the first of its addresses that leads to one.
    fn interface(&self, name: &str, pod: &Workload) -> Option<u32> {
        pod.addresses.iter().find_map(|address| {
            let owner = self.owners.owner(*address)?;
            let interface = self.interface_at(*address, &owner);
            (owner.workload == Some(name) && interface != 0).then_some(interface)
        })
    }

    fn plan(&mut self, workload: &Workload, direction: Direction) -> Arc<Plan> {
        let mut selecting: Vec<(&String, &Arc<Policy>)> = self
            .policies
            .iter()
            .filter(|(_, policy)| policy.direction == direction)
            .filter(|(_, policy)| selects(&policy.selector, workload))
            .collect();
        // Within equals the order is that of the names.
        selecting.sort_by_key(|(_, policy)| match policy.tier {
            Tier::Admin | Tier::Baseline => (policy.tier, policy.priority),
            Tier::Namespace | Tier::Mesh => (policy.tier, 0),
        });
        let subject = self.owners.subject(&workload.name).cloned();
        let own = subject.as_ref().map(|subject| Own {
            subject,
            addresses: &workload.addresses,
        });
        let mut parts = Vec::with_capacity(selecting.len());
        for (name, policy) in selecting {
            let compiled = self.compiled.entry(name.clone()).or_insert_with(|| {
                let number = |rule: &str| self.rule_ids.number(policy, rule);
                Arc::new(CompiledPolicy::new(policy, number))
            });
            parts.extend(own.as_ref().map(|own| Part::new(Arc::clone(compiled), own)));
        }
        Arc::new(Plan {
            parts,
            default: self.config.default,
        })
    }

    fn mention(&mut self, plan: &Plan) -> Vec<Cidr> {
        let cidrs = plan.parts.iter().flat_map(|part| &part.policy.cidrs);
        let cidrs = cidrs.filter(|cidr| self.cidrs.mention(**cidr));
        cidrs.copied().collect()
    }

    /// Returns the prefixes that nobody mentions any more.
    pub(super) fn release(&mut self, plan: &Plan) -> Vec<Cidr> {
        let cidrs = plan.parts.iter().flat_map(|part| &part.policy.cidrs);
        let cidrs = cidrs.filter(|cidr| self.cidrs.release(cidr));
        cidrs.copied().collect()
    }

    /// Sends these pods to the sets of their plans.
    pub(super) fn send(&mut self, names: &BTreeSet<String>) {
        for name in names {
            let Some(pod) = self.pods.pods.get(name) else {
                continue;
            };
            let interface = pod.interface;
            let (egress, ingress) = (Arc::clone(&pod.egress), Arc::clone(&pod.ingress));
            let failure = match self.exposed() {
                None => self.send_pod(interface, &egress, &ingress).err(),
                exposed => exposed,
            };
            if let Some(pod) = self.pods.pods.get_mut(name) {
                pod.failure = failure;
            }
        }
    }

    fn send_pod(
        &mut self,
        interface: u32,
        egress: &Arc<Plan>,
        ingress: &Arc<Plan>,
    ) -> Result<(), String> {
        let old = self.mirror.pods().get(&interface).copied();
        let asks_proxy = ingress.asks_proxy();
        let egress = self.set(egress, old.map(|old| old.egress));
        let ingress = self.set(ingress, old.map(|old| old.ingress));
        // A set that stays may ask, too.
        let layer7 = asks_proxy || (ingress.is_err() && old.is_some_and(|old| old.layer7));
        let failure = egress.as_ref().err().or(ingress.as_ref().err()).cloned();
        // What cannot be written stays as it was; a pod for which nothing was written is refused.
        let egress = egress.ok().or(old.map(|old| old.egress));
        let ingress = ingress.ok().or(old.map(|old| old.ingress));
        let (Some(egress), Some(ingress)) = (egress, ingress) else {
            return failure.map_or(Ok(()), Err);
        };
        let entry = LocalWorkload {
            egress,
            ingress,
            layer7,
        };
        if old != Some(entry) {
            self.mirror.write_pod(&mut self.tables, interface, entry)?;
            self.stale |= old.is_some();
        }
        failure.map_or(Ok(()), Err)
    }

    /// A set for this plan: one that is there, the one the pod has from an earlier agent, or a new one.
    fn set(&mut self, plan: &Arc<Plan>, has: Option<PolicySet>) -> Result<PolicySet, String> {
        let lost = || "the set has no rules".to_owned();
        if let Some(id) = self.sets.by_plan(plan) {
            return self.sets.entry(id).ok_or_else(lost);
        }
        let mut cidrs = plan.parts.iter().flat_map(|part| &part.policy.cidrs);
        if let Some(reason) = cidrs.find_map(|cidr| self.addresses.unwritten.get(cidr)) {
            return Err(reason.clone());
        }
        let (compiled, mut peers) = CompiledSet::new(Arc::clone(plan), self.identities.universe());
        peers.retain(|number, _| !self.sets.untold().contains_key(number));
        let found = has.and_then(|has| {
            let ranges = self.sets.same(&self.tables, has, &compiled, &peers);
            Some((has.id, ranges?))
        });
        let id = match found {
            Some((id, ranges)) => {
                self.sets.claim(id, ranges, compiled, peers);
                id
            }
            None => {
                let id = SetId(self.mirror.next_set(&mut self.tables)?);
                self.sets.create(&mut self.tables, id, compiled, peers)?;
                id
            }
        };
        self.mention(plan);
        self.sets.entry(id).ok_or_else(lost)
    }

    /// Deletes sets that no pod is sent to; returns the prefixes that nobody mentions any more.
    pub(super) fn delete_sets(&mut self) -> BTreeSet<Cidr> {
        let entries = self.mirror.pods().values();
        let used: BTreeSet<SetId> = entries
            .flat_map(|entry| [entry.egress.id, entry.ingress.id])
            .collect();
        let plans = self.sets.retain(&mut self.tables, &used);
        plans.iter().flat_map(|plan| self.release(plan)).collect()
    }

    /// Pods that are gone, or whose interfaces are, are refused.
    pub(super) fn delete_pods(&mut self) {
        if !self.owners.interfaces().settled {
            return;
        }
        let used: BTreeSet<u32> = self.pods.pods.values().map(|pod| pod.interface).collect();
        let entries = self.mirror.pods().keys().copied();
        let gone: Vec<u32> = entries.filter(|index| !used.contains(index)).collect();
        if gone.is_empty() {
            return;
        }
        match self.mirror.delete_pods(&mut self.tables, &gone) {
            // The next pod at such an interface may be the same: what it was allowed is judged again.
            Ok(()) => self.stale = true,
            Err(e) => tracing::warn!("policies of pods that are gone stay for now: {e}"),
        }
    }

    /// Pods that are not judged by their plans.
    pub(super) fn failed_pods(&self) -> BTreeSet<String> {
        let failures = self.pods.failures();
        failures.map(|(name, _)| name.to_owned()).collect()
    }
}
