//! Who may talk to whom, as the kernel is told.
//!
//! The engine numbers everything that policies cannot tell apart ([`identities`]), compiles the policies that select local pods
//! into sets ([`compile`]), and writes both. The kernel reads meanwhile, and the agent may die at any step. Therefore, in one go:
//!
//! 1. Prefixes that new plans mention split identities; every set in use learns of those that are new.
//! 2. Addresses get their identities. Until here every set judges as it did before.
//! 3. New sets are written whole, then local pods are sent to them, each in one write.
//! 4. Sets without pods are deleted, prefixes that nobody mentions any more are taken back, and addresses that are gone.
//! 5. The epoch is raised if a living connection may be judged otherwise than before.
//! 6. Identities that nobody has are deleted from the sets that remain.
//!
//! Nothing is written before all policies and workloads are known: what an earlier agent left goes on to judge.

mod addresses;
mod apply;
mod bits;
mod cidrs;
mod compile;
mod identities;
mod mirror;
mod owners;
mod pods;
mod publish;
mod refusals;
mod rule_ids;
mod selector;
mod sets;
mod subject;
mod universe;
pub mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use weft_proto::model::policy::Cidr;
use weft_proto::model::{Policy, Workload};

use crate::interfaces::LocalInterfaces;
use crate::mtls::MtlsEngine;
use crate::proxy::Steering;
use crate::tables::policy::{IdentityNumber, PolicyTables, Verdict};
use crate::tables::{MapUsage, TableError};
use addresses::Addresses;
use cidrs::Cidrs;
use compile::CompiledPolicy;
use identities::Identities;
use mirror::Mirror;
use owners::Owners;
use pods::Pods;
pub use refusals::Shortage;
use rule_ids::RuleIds;
use sets::Sets;

/// What the policy engine has to know beforehand.
#[derive(Clone, Debug)]
pub struct PolicyConfig {
    /// Name of this node.
    pub node: String,
    /// What becomes of connections about which no policy says anything.
    pub default: Verdict,
    /// This node has an Envoy, which opens tunnels to other nodes.
    pub opens_tunnels: bool,
}

/// Owner of the policy tables.
pub struct PolicyEngine {
    config: PolicyConfig,
    tables: PolicyTables,
    policies: BTreeMap<String, Arc<Policy>>,
    /// Under which names those are that stand in for a policy that cannot be read.
    closed: BTreeMap<String, Vec<String>>,
    owners: Owners,
    compiled: HashMap<String, Arc<CompiledPolicy>>,
    rule_ids: RuleIds,
    cidrs: Cidrs,
    identities: Identities,
    addresses: Addresses,
    sets: Sets,
    pods: Pods,
    mirror: Mirror,
    mtls: MtlsEngine,
    dirty: Dirty,
    synced: bool,
    /// The epoch has to be raised.
    stale: bool,
}

/// What has to be looked at again.
#[derive(Debug, Default)]
struct Dirty {
    /// Whose owner, interface or prefix may be another.
    addresses: BTreeSet<IpAddr>,
    /// Local pods whose policies may be others, by resource name.
    pods: BTreeSet<String>,
    /// Prefixes that are mentioned for the first time, or by nobody any more.
    cidrs: BTreeSet<Cidr>,
}

impl PolicyEngine {
    /// Takes over what the tables hold.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn new(tables: PolicyTables, config: PolicyConfig) -> Result<Self, TableError> {
        let mirror = Mirror::read(&tables)?;
        let sets = Sets::read(&tables, mirror.pods())?;
        let next = mirror.numbers().chain(sets.numbers()).max();
        let next = next.map_or(IdentityNumber::FIRST, |last| {
            IdentityNumber(last.0.saturating_add(1))
        });
        let mtls = MtlsEngine::new(&tables.mtls, &config.node, config.opens_tunnels)?;
        Ok(Self {
            mtls,
            owners: Owners::new(&config.node),
            config,
            tables,
            policies: BTreeMap::new(),
            closed: BTreeMap::new(),
            compiled: HashMap::new(),
            rule_ids: RuleIds::default(),
            cidrs: Cidrs::default(),
            identities: Identities::new(next),
            addresses: Addresses::default(),
            sets,
            pods: Pods::default(),
            mirror,
            dirty: Dirty::default(),
            synced: false,
            stale: false,
        })
    }

    /// A policy is new or changed. In effect after [`PolicyEngine::apply`], as all changes.
    pub fn set_policy(&mut self, name: &str, policy: Policy) {
        if self
            .policies
            .get(name)
            .is_some_and(|known| **known == policy)
        {
            return;
        }
        self.remove_policy(name);
        self.touch_selected(&policy);
        self.policies.insert(name.to_owned(), Arc::new(policy));
    }

    /// A policy cannot be read: unless there is an earlier state of it, these are in effect in its place.
    pub fn close_policy(&mut self, name: &str, policies: Vec<Policy>) {
        if self.policies.contains_key(name) {
            return;
        }
        self.open_policy(name);
        for (number, policy) in policies.into_iter().enumerate() {
            // No resource is called so.
            let key = format!("{name}\0{number}");
            self.touch_selected(&policy);
            self.policies.insert(key.clone(), Arc::new(policy));
            self.closed.entry(name.to_owned()).or_default().push(key);
        }
    }

    fn open_policy(&mut self, name: &str) {
        for key in self.closed.remove(name).unwrap_or_default() {
            self.forget_policy(&key);
        }
    }

    /// A policy is gone.
    pub fn remove_policy(&mut self, name: &str) {
        self.open_policy(name);
        self.forget_policy(name);
    }

    fn forget_policy(&mut self, name: &str) {
        if let Some(old) = self.policies.remove(name) {
            self.touch_selected(&old);
            if let Some(compiled) = self.compiled.remove(name) {
                self.rule_ids.retire(compiled.numbers());
            }
        }
    }

    /// A pod or node is new or changed.
    pub fn set_workload(&mut self, name: &str, workload: Workload) {
        self.mtls.set_workload(name, &workload);
        let touched = self.owners.set(name, workload);
        self.dirty.pods.insert(name.to_owned());
        self.touch_addresses(touched);
    }

    /// A pod or node is gone.
    pub fn remove_workload(&mut self, name: &str) {
        self.mtls.remove_workload(name);
        let touched = self.owners.remove(name);
        self.dirty.pods.insert(name.to_owned());
        self.touch_addresses(touched);
    }

    /// What is known about local interfaces.
    pub fn set_interfaces(&mut self, interfaces: LocalInterfaces) {
        let settles = interfaces.settled && !self.owners.interfaces().settled;
        let touched = self.owners.set_interfaces(interfaces);
        self.touch_addresses(touched);
        if settles {
            // Those that an earlier agent's interfaces were taken for until now.
            let pods = self.owners.local_pods();
            let local: Vec<IpAddr> = pods.flat_map(|pod| &pod.addresses).copied().collect();
            self.touch_addresses(local);
        }
    }

    /// Every policy and workload has been received once: from now on [`PolicyEngine::apply`] writes.
    pub fn set_synced(&mut self) {
        if self.synced {
            return;
        }
        self.synced = true;
        self.mtls.set_synced();
        self.dirty.cidrs.extend([cidrs::ALL_V4, cidrs::ALL_V6]);
        // The agent before may have died between a change and its epoch.
        self.stale = true;
        self.dirty.addresses.extend(self.owners.addresses());
        self.dirty.addresses.extend(self.mirror.addresses());
        self.addresses.found(self.mirror.cidrs());
        let pods = self.owners.local_pods().map(|pod| pod.name.clone());
        self.dirty.pods.extend(pods);
    }

    /// Whether [`PolicyEngine::set_synced`] was called.
    #[must_use]
    pub const fn is_synced(&self) -> bool {
        self.synced
    }

    /// Names of all policies.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let stand_ins: BTreeSet<&String> = self.closed.values().flatten().collect();
        let names = self.policies.keys();
        let names = names.filter(move |name| !stand_ins.contains(name));
        names.chain(self.closed.keys()).map(String::as_str)
    }

    /// Of judgements from now on. When it grows, living connections have to be judged again.
    #[must_use]
    pub const fn epoch(&self) -> u32 {
        self.mirror.settings().epoch
    }

    /// What comes from other nodes for the node's Envoy.
    #[must_use]
    pub fn steering(&self) -> Steering {
        Steering {
            inbound: self.mirror.pods().values().any(|pod| pod.layer7),
            tunnels: self.mtls.takes_tunnels(),
        }
    }

    /// How full the tables are.
    #[must_use]
    pub fn usage(&self) -> Vec<MapUsage> {
        let mut usage = self.mirror.usage().to_vec();
        usage.extend([
            self.sets.peers_usage(),
            self.sets.rules_usage(),
            self.mtls.usage(),
        ]);
        usage
    }

    /// Why a policy is not everywhere in effect.
    #[must_use]
    pub fn policy_rejection(&self, name: &str) -> Option<String> {
        let policy = self.policies.get(name)?;
        self.pods.failures().find_map(|(pod, reason)| {
            let selected = selector::selects(&policy.selector, self.owners.get(pod)?);
            selected.then(|| format!("{pod}: {reason}"))
        })
    }

    /// Policies that are not everywhere in effect.
    pub fn failed_policies(&self) -> impl Iterator<Item = &str> {
        let failed = self.pods.failures().next().is_some();
        let all = self.policies.keys().filter(move |_| failed);
        all.filter(|name| self.policy_rejection(name).is_some())
            .map(String::as_str)
    }

    /// Workloads that are not known to the kernel as they should be.
    pub fn failed_workloads(&self) -> impl Iterator<Item = &str> {
        let addresses = self.mirror.failures();
        addresses.filter_map(|(address, _)| self.owners.owner(address)?.workload)
    }

    /// Why a workload is not known to the kernel as it should be.
    #[must_use]
    pub fn workload_rejection(&self, name: &str) -> Option<String> {
        let workload = self.owners.get(name)?;
        let mut addresses = workload.addresses.iter();
        addresses.find_map(|address| self.address_failure(*address))
    }

    fn touch_selected(&mut self, policy: &Policy) {
        let pods = self.owners.local_pods();
        let selected = pods.filter(|pod| selector::selects(&policy.selector, pod));
        self.dirty.pods.extend(selected.map(|pod| pod.name.clone()));
    }

    fn touch_addresses(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        for address in addresses {
            self.dirty.addresses.insert(address);
            // Which of two pods has an address decides which one is local there.
            if let Some(owner) = self.owners.owner(address)
                && let Some(name) = owner.workload
            {
                self.dirty.pods.insert(name.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests;
