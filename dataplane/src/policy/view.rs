//! Policies and identities as people see them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::ops::Bound;

use weft_proto::model::policy::{Cidr, Direction, Effect, Mode, ObjectRef, PeerKind, Tier};
use weft_proto::model::{Policy, WorkloadKind};

use super::PolicyEngine;
use super::compile::asks_proxy;
use super::selector::selects;
use super::subject::Class;
use crate::engine::view::Page;
use crate::tables::policy::{IdentityNumber, NodePart};

/// A policy as this node applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyView {
    /// Resource name.
    pub name: String,
    /// The object it was made from.
    pub origin: ObjectRef,
    /// Of connections to or from the selected.
    pub direction: Direction,
    /// When it is asked.
    pub tier: Tier,
    /// Within the tier: lower ones first.
    pub priority: u32,
    /// Whether it decides.
    pub mode: Mode,
    /// What a matching rule does.
    pub effect: Effect,
    /// Whether Envoy may have to be asked what it says.
    pub asks_proxy: bool,
    /// How many rules it has.
    pub rules: usize,
    /// Resource names of the local pods it selects.
    pub workloads: Vec<String>,
    /// Why it is not, or not everywhere, in effect.
    pub problem: Option<String>,
}

/// What an identity's number stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityView {
    /// The number.
    pub number: IdentityNumber,
    /// What it is.
    pub kind: PeerKind,
    /// Whether it is a node, and which.
    pub node: NodePart,
    /// Empty for what is no pod.
    pub namespace: String,
    /// Empty for what is no pod.
    pub service_account: String,
    /// Of the pod or node.
    pub labels: BTreeMap<String, String>,
    /// Empty for what has none.
    pub spiffe_id: String,
    /// The most specific prefix in policies that its addresses are in.
    pub cidr: Option<Cidr>,
    /// How many known addresses have it.
    pub addresses: usize,
    /// Resource names of some workloads that have it.
    pub workloads: Vec<String>,
}

impl fmt::Display for IdentityView {
    /// "shop/cart-account app=cart", "host", "node", "10.0.0.0/8", "world".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.node, self.cidr) {
            (PeerKind::Pod, ..) => {
                write!(f, "{}/{}", self.namespace, self.service_account)?;
                let mut labels = self.labels.iter();
                labels.try_for_each(|(key, value)| write!(f, " {key}={value}"))
            }
            (_, NodePart::Host, _) => f.write_str("host"),
            (PeerKind::Node, ..) | (_, NodePart::Remote, _) => f.write_str("node"),
            (_, _, Some(cidr)) => write!(f, "{}/{}", cidr.address, cidr.prefix),
            (_, _, None) => f.write_str("world"),
        }
    }
}

/// What a rule's number stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleView {
    /// Resource name of the policy.
    pub policy: String,
    /// The object it was made from.
    pub origin: ObjectRef,
    /// Name of the rule; empty where the policy decides by selecting alone: none of its rules matched (`REASON_ISOLATED`).
    pub rule: String,
    /// Whether the policy is still there.
    pub current: bool,
}

/// Workloads that stand for an identity.
const SAMPLE: usize = 3;
/// Rows of a page.
const PAGE: usize = 500;

impl PolicyEngine {
    /// SPIFFE ID of the pod that has this address alone; `None` for what is no such pod's.
    #[must_use]
    pub fn identity_at(&self, address: IpAddr) -> Option<String> {
        let name = self.owners.owner(address)?.workload?;
        let pod = self.owners.get(name)?;
        let alone = pod.kind == WorkloadKind::Pod && !pod.host_network;
        (alone && !pod.spiffe_id.is_empty()).then(|| pod.spiffe_id.clone())
    }

    /// Policies by resource name.
    #[must_use]
    pub fn policies(&self, after: Option<&str>) -> Page<PolicyView, String> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.policies.range::<str, _>((start, Bound::Unbounded));
        let rows: Vec<PolicyView> = rest
            .by_ref()
            .take(PAGE)
            .map(|(name, policy)| self.policy(name, policy))
            .collect();
        let last = rows.last().map(|row| row.name.clone());
        Page {
            rows,
            next: rest.next().and(last),
        }
    }

    /// All policies, by resource name.
    pub fn views(&self) -> impl Iterator<Item = PolicyView> {
        let all = self.policies.iter();
        all.map(|(name, policy)| self.policy(name, policy))
    }

    fn policy(&self, name: &str, policy: &Policy) -> PolicyView {
        let pods = self.owners.local_pods();
        let selected = pods.filter(|pod| selects(&policy.selector, pod));
        PolicyView {
            name: name.to_owned(),
            origin: policy.origin.clone(),
            direction: policy.direction,
            tier: policy.tier,
            priority: policy.priority,
            mode: policy.mode,
            effect: policy.effect,
            asks_proxy: asks_proxy(policy),
            rules: policy.rules.len(),
            workloads: selected.map(|pod| pod.name.clone()).collect(),
            problem: self.policy_rejection(name),
        }
    }

    /// What an identity's number stands for; `None` for one that nobody has any more.
    #[must_use]
    pub fn identity(&self, number: IdentityNumber) -> Option<IdentityView> {
        let Class { subject, cidr } = self.identities.class(number)?;
        let addresses: Vec<IpAddr> = self.addresses.with_number(number).collect();
        let mut workloads = BTreeSet::new();
        for address in addresses.iter().take(SAMPLE) {
            let owner = self.owners.owner(*address);
            workloads.extend(owner.and_then(|owner| owner.workload.map(str::to_owned)));
        }
        Some(IdentityView {
            number,
            kind: subject.kind,
            node: subject.node,
            namespace: subject.namespace.clone(),
            service_account: subject.service_account.clone(),
            labels: subject.labels.clone(),
            spiffe_id: subject.spiffe_id.clone(),
            cidr: *cidr,
            addresses: addresses.len(),
            workloads: workloads.into_iter().collect(),
        })
    }

    /// The first enforced policy of the mesh that refuses to this local address whatever none of its kind lets in.
    #[must_use]
    pub fn isolating(&self, address: IpAddr) -> Option<&ObjectRef> {
        let owner = self.owners.owner(address)?.workload?;
        let pod = self.owners.get(owner)?;
        let mut policies = self.policies.values();
        let found = policies.find(|policy| {
            policy.tier == Tier::Mesh
                && policy.direction == Direction::Ingress
                && policy.mode == Mode::Enforce
                && policy.effect == Effect::Allow
                && selects(&policy.selector, pod)
        });
        found.map(|policy| &policy.origin)
    }

    /// What a rule's number stands for, also for a while after the policy has gone.
    #[must_use]
    pub fn rule(&self, number: u32) -> Option<&RuleView> {
        self.rule_ids.get(number)
    }
}
