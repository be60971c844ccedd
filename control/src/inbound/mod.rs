//! Where nodes' Envoys stand in for pods: those that a policy selects whose rules are about requests.
//!
//! The kernel of the destination's node hands a connection to Envoy where policies leave it to Envoy. What policies ask about the client
//! is asked by its address, as Envoy sees nothing else of it ([`identity`]).

mod guard;
mod identity;
mod prefixes;
mod select;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use weft_proto::model::inbound::{Guard, Inbound as Listener};
use weft_proto::model::policy::{Direction, Mode, Policy, Tier};
use weft_proto::model::{Resource, Workload, WorkloadKind};
use weft_proto::resource::ResourceType;

use crate::ads::Batch;
use guard::Resolved;
use identity::Sources;
use select::selects;

/// Follows what is published, and adds what Envoys take for it.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    /// Policies of the mesh for ingress, by resource name.
    policies: BTreeMap<String, Arc<Policy>>,
    /// Pods with addresses of their own, by resource name.
    pods: BTreeMap<String, Arc<Workload>>,
    /// Nodes, by resource name.
    nodes: BTreeMap<String, Arc<Workload>>,
    /// Policies with the addresses of those whom they mention.
    resolved: HashMap<String, Arc<Resolved>>,
    published: BTreeMap<(ResourceType, String), Resource>,
}

impl Inbound {
    /// What these changes mean for Envoys.
    pub(crate) fn take(&mut self, batch: &Batch) -> Batch {
        let policies = self.take_policies(batch);
        let workloads = self.take_workloads(batch);
        let mut changes = Batch::default();
        if policies.is_empty() && !workloads {
            return changes;
        }
        let asks = self.policies.values().any(|policy| asks_envoy(policy));
        if !asks && self.published.is_empty() {
            self.resolved.clear();
            return changes;
        }
        self.resolve(&policies, workloads);
        let wanted = if asks { self.wanted() } else { BTreeMap::new() };
        for key in self.published.keys().filter(|k| !wanted.contains_key(k)) {
            changes.remove(key.0, key.1.clone());
        }
        for (key, resource) in &wanted {
            if self.published.get(key) != Some(resource) {
                changes.upsert(resource.clone());
            }
        }
        self.published = wanted;
        changes
    }

    /// Names of those that are new, changed or gone.
    fn take_policies(&mut self, batch: &Batch) -> BTreeSet<String> {
        let mut touched = BTreeSet::new();
        for (name, resource) in batch.of(ResourceType::Policy) {
            let policy = match resource {
                Some(Resource::Policy(policy)) if is_of_mesh(policy) => Some(policy),
                _ => None,
            };
            let old = match policy {
                Some(policy) => self
                    .policies
                    .insert(name.to_owned(), Arc::new(policy.clone())),
                None => self.policies.remove(name),
            };
            if old.as_deref() != policy {
                touched.insert(name.to_owned());
            }
        }
        touched
    }

    /// Whether any pod or node is another than before.
    fn take_workloads(&mut self, batch: &Batch) -> bool {
        let mut touched = false;
        for (name, resource) in batch.of(ResourceType::Workload) {
            let workload = match resource {
                Some(Resource::Workload(workload)) => Some(workload),
                _ => None,
            };
            for (kind, all) in [
                (WorkloadKind::Pod, &mut self.pods),
                (WorkloadKind::Node, &mut self.nodes),
            ] {
                // A pod of the host network is its node to policies.
                let workload = workload.filter(|w| w.kind == kind && !w.host_network);
                let old = match workload {
                    Some(workload) => all.insert(name.to_owned(), Arc::new(workload.clone())),
                    None => all.remove(name),
                };
                touched |= old.as_deref() != workload;
            }
        }
        touched
    }

    /// Brings `resolved` up to date.
    fn resolve(&mut self, changed: &BTreeSet<String>, workloads: bool) {
        let sources = Sources::new(self.pods.values(), self.nodes.values());
        let policies = &self.policies;
        self.resolved.retain(|name, resolved| {
            policies.contains_key(name)
                && !changed.contains(name)
                && !(workloads && resolved.is_about_workloads)
        });
        for (name, policy) in policies {
            if !self.resolved.contains_key(name) {
                let resolved = Resolved::new(policy, &sources);
                self.resolved.insert(name.clone(), Arc::new(resolved));
            }
        }
    }

    /// Everything that Envoys take now.
    fn wanted(&self) -> BTreeMap<(ResourceType, String), Resource> {
        let mut listeners: BTreeMap<(&str, bool), BTreeMap<IpAddr, String>> = BTreeMap::new();
        let mut wanted = BTreeMap::new();
        let mut add = |resource: Resource| {
            wanted.insert((resource.resource_type(), resource.name()), resource);
        };
        for pod in self.pods.values() {
            let Some(guard) = self.guard(pod) else {
                continue;
            };
            for address in &pod.addresses {
                let node = (pod.node.as_str(), address.is_ipv6());
                let pods = listeners.entry(node).or_default();
                // Of two pods with one address the first counts, as on the node.
                pods.entry(*address).or_insert_with(|| guard.name.clone());
            }
            add(Resource::Guard(guard));
        }
        for ((node, ipv6), pods) in listeners {
            add(Resource::Inbound(Listener {
                node: node.to_owned(),
                ipv6,
                pods,
            }));
        }
        wanted
    }

    /// What is asked of requests to this pod; `None`: nothing.
    fn guard(&self, pod: &Workload) -> Option<Guard> {
        let selecting: Vec<&str> = self
            .policies
            .iter()
            .filter(|(_, policy)| selects(&policy.selector, pod))
            .map(|(name, _)| name.as_str())
            .collect();
        let of = |name: &&str| self.policies.get(*name);
        if pod.node.is_empty()
            || pod.out_of_mesh
            || !selecting.iter().filter_map(of).any(|p| asks_envoy(p))
        {
            return None;
        }
        let resolved = selecting.iter().filter_map(|n| self.resolved.get(*n));
        Some(guard::guard(
            &pod.name,
            resolved.map(AsRef::as_ref).collect(),
        ))
    }
}

/// AuthorizationPolicies, which alone are asked by Envoy: all others are the kernel's.
fn is_of_mesh(policy: &Policy) -> bool {
    policy.tier == Tier::Mesh && policy.direction == Direction::Ingress
}

/// Whether the kernel may leave a connection to Envoy for its sake. The audit of a policy changes nobody's path.
fn asks_envoy(policy: &Policy) -> bool {
    let mut found = false;
    for rule in policy.rules.values() {
        for expr in [&rule.source, &rule.destination] {
            expr.matches(&mut |single| found |= single.is_of_request());
        }
    }
    found && policy.mode == Mode::Enforce
}
