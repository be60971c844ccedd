//! Takes one response of the control plane in.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use weft_proto::model::{LocalityMode, Workload, WorkloadKind};
use weft_proto::resource::ResourceType;

use super::resources::{EndpointsState, Touched};
use super::service::ServiceName;
use super::update::{Applied, NodeResource, Rejection, Update};
use super::{Engine, Phase};
use crate::compile::Family;

impl Engine {
    /// Applies `update`; when this returns, the tables are written.
    pub fn apply(&mut self, update: Update, now: Instant) -> Applied {
        self.last_update = Some(now);
        let resource_type = update.resource_type;
        let mut touched = Touched::default();
        let mut names = Vec::with_capacity(update.upserts.len());
        let removals = self.removals(&update);
        for (name, resource) in update.upserts {
            names.push(name.clone());
            self.upsert(resource_type, name, resource, &mut touched);
        }
        for name in &removals {
            self.remove(resource_type, name, &mut touched);
        }
        for (name, policies) in update.closed {
            self.policies.close_policy(&name, policies);
        }
        match resource_type {
            ResourceType::Workload => self.tell_wanted(),
            _ => self.tell_unaccelerated(),
        }
        self.unowned.extend(std::mem::take(&mut touched.unowned));
        self.reconcile(std::mem::take(&mut touched.services), now);
        self.policies.apply();
        self.tell_health();

        let failed = names.into_iter().filter_map(|name| {
            let reason = self.rejection(resource_type, &name)?;
            Some(Rejection { name, reason })
        });
        let mut rejected: Vec<Rejection> = failed.collect();
        for rejection in update.rejected {
            self.refused.insert(
                (resource_type, rejection.name.clone()),
                rejection.reason.clone(),
            );
            rejected.push(rejection);
        }
        Applied {
            rejected,
            subscribe: touched.subscribe,
            unsubscribe: touched.unsubscribe,
        }
    }

    /// Names to remove: those that the update says, and in a replacing update those that it does not mention.
    fn removals(&self, update: &Update) -> Vec<String> {
        let mentioned: BTreeSet<&str> = update
            .upserts
            .iter()
            .map(|(name, _)| name.as_str())
            .chain(update.rejected.iter().map(|r| r.name.as_str()))
            .collect();
        let mut removals: Vec<String> = update
            .removals
            .iter()
            .filter(|name| !mentioned.contains(name.as_str()))
            .cloned()
            .collect();
        if update.replace {
            let held = self.held_names(update.resource_type);
            removals.extend(held.into_iter().filter(|n| !mentioned.contains(n.as_str())));
        }
        removals
    }

    fn held_names(&self, resource_type: ResourceType) -> Vec<String> {
        let r = &self.resources;
        let refused = self.refused.keys().filter(|(t, _)| *t == resource_type);
        let held: Vec<String> = match resource_type {
            ResourceType::Cluster => r.clusters.keys().map(|n| n.to_string()).collect(),
            ResourceType::Endpoints => r.endpoints.keys().map(|n| n.to_string()).collect(),
            ResourceType::Listener => r.listeners.keys().cloned().collect(),
            ResourceType::Route => Vec::new(),
            ResourceType::Policy => self.policies.names().map(ToOwned::to_owned).collect(),
            ResourceType::Workload => r.workloads.keys().cloned().collect(),
            ResourceType::Problem => r.problems.keys().cloned().collect(),
        };
        held.into_iter()
            .chain(refused.map(|(_, name)| name.clone()))
            .collect()
    }

    fn upsert(
        &mut self,
        resource_type: ResourceType,
        name: String,
        resource: NodeResource,
        touched: &mut Touched,
    ) {
        let key = (resource_type, name);
        self.refused.remove(&key);
        let (_, name) = key.clone();
        match resource {
            NodeResource::Cluster(c) => self.resources.set_cluster(&name, c, touched),
            NodeResource::Endpoints(list) => {
                let state = EndpointsState::Here(list);
                self.resources.set_endpoints(&name, state, touched);
            }
            NodeResource::Listener(l) => {
                if let Err(reason) = self.resources.set_listener(name, l, touched) {
                    self.refused.insert(key, reason);
                }
            }
            NodeResource::Policy(p) => {
                self.policies.set_policy(&name, p);
            }
            NodeResource::Workload(w) => self.set_workload(name, w, touched),
            NodeResource::Problem(p) => {
                self.resources.problems.insert(name, p);
            }
        }
    }

    fn remove(&mut self, resource_type: ResourceType, name: &str, touched: &mut Touched) {
        self.refused.remove(&(resource_type, name.to_owned()));
        match resource_type {
            ResourceType::Cluster => self.resources.remove_cluster(name, touched),
            ResourceType::Endpoints => {
                self.resources
                    .set_endpoints(name, EndpointsState::Absent, touched);
            }
            ResourceType::Listener => self.resources.remove_listener(name, touched),
            ResourceType::Route => {}
            ResourceType::Policy => {
                self.policies.remove_policy(name);
            }
            ResourceType::Workload => {
                self.policies.remove_workload(name);
                let gone = self.resources.remove_workload(name);
                self.workloads_gone(&gone);
            }
            ResourceType::Problem => {
                self.resources.problems.remove(name);
            }
        }
    }

    fn set_workload(&mut self, name: String, workload: Workload, touched: &mut Touched) {
        let is_here = workload.kind == WorkloadKind::Node && workload.node == self.here.node;
        if is_here && self.here.zone != workload.zone {
            self.here.zone.clone_from(&workload.zone);
            self.touch_zonal(touched);
        }
        self.policies.set_workload(&name, workload.clone());
        let gone = self.resources.set_workload(name, workload);
        self.workloads_gone(&gone);
    }

    fn workloads_gone(&mut self, addresses: &[IpAddr]) {
        self.release_orphans(addresses);
    }

    /// This node's zone has changed.
    fn touch_zonal(&self, touched: &mut Touched) {
        for (name, cluster) in &self.resources.clusters {
            if cluster.locality == LocalityMode::PreferZone {
                touched.services.extend(services_of(name));
            }
        }
    }

    /// Why a resource is not wholly in effect.
    #[must_use]
    pub fn rejection(&self, resource_type: ResourceType, name: &str) -> Option<String> {
        if let Some(reason) = self.refused.get(&(resource_type, name.to_owned())) {
            return Some(reason.clone());
        }
        match resource_type {
            ResourceType::Cluster => self.cluster_failure(&Arc::from(name)),
            ResourceType::Endpoints => self
                .resources
                .askers(name)
                .find_map(|cluster| self.cluster_failure(cluster)),
            ResourceType::Listener => self.listener_failure(name),
            ResourceType::Policy => self.policies.policy_rejection(name),
            ResourceType::Workload => self.policies.workload_rejection(name),
            ResourceType::Problem | ResourceType::Route => None,
        }
    }

    fn cluster_failure(&self, cluster: &Arc<str>) -> Option<String> {
        if self.failures.is_empty() {
            return None;
        }
        services_of(cluster).find_map(|name| self.failures.get(&name).cloned())
    }

    fn listener_failure(&self, name: &str) -> Option<String> {
        let listener = self.resources.listeners.get(name)?;
        let lost = self.resources.lost(name, listener);
        let lost = lost.map(|(key, owner)| duplicate(&key, owner));
        let mut keys = super::resources::keys(listener);
        let unwritten = keys.find_map(|key| self.vip_failures.get(&key).cloned());
        let cluster = self.cluster_failure(&Arc::from(listener.cluster.as_str()));
        let reasons: Vec<String> = [lost, unwritten, cluster].into_iter().flatten().collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// All resources that are not wholly in effect, with the reason.
    #[must_use]
    pub fn rejections(&self) -> Vec<(ResourceType, Rejection)> {
        let losers = self.resources.losers();
        let unwritten = self.vip_failures.keys();
        let owners = unwritten.filter_map(|key| self.resources.owner(key));
        let listeners = losers.chain(owners.map(|l| l.name.as_str()));
        let clusters = self.failures.keys().map(|service| &*service.cluster);
        let policies = self.policies.failed_policies();
        let workloads = self.policies.failed_workloads();
        let names: BTreeSet<(ResourceType, &str)> = self
            .refused
            .keys()
            .map(|(resource_type, name)| (*resource_type, name.as_str()))
            .chain(listeners.map(|name| (ResourceType::Listener, name)))
            .chain(clusters.map(|name| (ResourceType::Cluster, name)))
            .chain(policies.map(|name| (ResourceType::Policy, name)))
            .chain(workloads.map(|name| (ResourceType::Workload, name)))
            .collect();
        names
            .into_iter()
            .filter_map(|(resource_type, name)| {
                let reason = self.rejection(resource_type, name)?;
                let name = name.to_owned();
                Some((resource_type, Rejection { name, reason }))
            })
            .collect()
    }

    /// Whether what is not desired has been deleted.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.phase == Phase::Settled
    }
}

fn services_of(cluster: &Arc<str>) -> impl Iterator<Item = ServiceName> + '_ {
    Family::ALL.into_iter().map(|family| ServiceName {
        cluster: Arc::clone(cluster),
        family,
    })
}

fn duplicate(key: &crate::tables::ServiceKey, owner: &str) -> String {
    format!(
        "{}:{}/{} is already served by listener {owner:?}: give each address, port and protocol to one listener",
        key.address, key.port, key.protocol
    )
}
