//! The node's view: holds what the control plane told, compiles what a change touches, and writes the difference.
//!
//! The kernel reads while the engine writes, and the agent may die at any step. Therefore, over all services of one update:
//!
//! 1. ids are persisted, then `loads`, `backends`, `cursors`, limits ([`crate::limits`]) and the slots of a new generation are
//!    written: nobody looks there yet, but for limits that have changed, which hold from then on;
//! 2. the VIPs in `services` are flipped to the new generation;
//! 3. old slots are deleted, then gone backends, then their connections are closed, and last their `loads`: an entry in `loads`
//!    without its backend tells the next agent that connections are still to be closed.
//!
//! What the tables hold is known without asking the kernel ([`mirror`], [`service`]); only [`adopt`] reads them.

mod adopt;
mod apply;
mod commit;
mod drain;
mod flip;
mod health;
mod ids;
mod mirror;
mod names;
mod outside;
mod plan;
mod policies;
mod reached;
mod resources;
mod service;
mod sweep;
mod update;
mod usage;
pub mod view;
pub mod worker;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

pub(crate) use policies::problem_row;
pub use service::ServiceName;
pub use update::{Applied, NodeCluster, NodeEndpointSource, NodeResource, Rejection, Update};

use tokio::sync::watch;

use crate::compile::Here;
use crate::health_checks::ServiceHealths;
use crate::interfaces::{LocalInterfaces, WantedPods, WantedReceiver};
use crate::limits::Ledger;
use crate::policy::{PolicyConfig, PolicyEngine};
use crate::tables::policy::{PolicyTables, Verdict};
use crate::tables::{BackendId, NodeSidePorts, ServiceId, ServiceKey, TableError, Tables};
use adopt::Adopted;
use drain::Drains;
use ids::Ids;
use mirror::Mirror;
use outside::Outside;
use resources::{Resources, Target};
use service::Service;
use sweep::Garbage;
use usage::Usage;

/// Ends connections of backends that went away. Must not block.
pub trait Closer: Send {
    /// Closes all connections to these backends, soon.
    fn close(&mut self, backends: Vec<BackendId>);
}

/// What the engine has to know beforehand.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Name of this node.
    pub node: String,
    /// A draining endpoint's connections are closed after this time.
    pub drain_timeout: Duration,
    /// After the first sync the stream must have been quiet for this long before anything found at start is deleted: the server
    /// may have split its state over several responses.
    pub settle: Duration,
    /// How often writes that failed are tried again when nothing else happens.
    pub retry: Duration,
    /// What becomes of connections about which no policy says anything.
    pub default_policy: Verdict,
    /// This node has an Envoy, for what needs layer 7.
    pub has_proxy: bool,
    /// Services are for clients outside the cluster as well.
    pub node_ports: bool,
    /// Ports of this node that connections of theirs to other nodes get.
    pub nat_ports: NodeSidePorts,
}

impl EngineConfig {
    /// Defaults for the node of this name.
    #[must_use]
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            drain_timeout: Duration::from_secs(600),
            settle: Duration::from_secs(1),
            retry: Duration::from_secs(5),
            default_policy: Verdict::Allow,
            has_proxy: false,
            node_ports: true,
            nat_ports: NodeSidePorts::beside(32_768, 60_999),
        }
    }
}

/// Settling waits at most this many times [`EngineConfig::settle`].
const SETTLE_WAITS: u32 = 5;

/// Owner of the tables. Single-threaded: see [`worker`].
pub struct Engine {
    config: EngineConfig,
    tables: Tables,
    here: Here,
    resources: Resources,
    policies: PolicyEngine,
    services: BTreeMap<ServiceName, Service>,
    /// The same by id.
    service_names: HashMap<ServiceId, ServiceName>,
    mirror: Mirror,
    ids: Ids,
    limits: Ledger,
    outside: Outside,
    usage: Usage,
    /// Found at start and not yet claimed by a desired service.
    adopted: Adopted,
    garbage: Garbage,
    drains: Drains,
    /// VIPs to delete.
    unowned: BTreeSet<ServiceKey>,
    /// Services that are not as desired, and why; tried again.
    failures: BTreeMap<ServiceName, String>,
    /// VIPs that could not be written, and why.
    vip_failures: BTreeMap<ServiceKey, String>,
    /// Resources refused whatever the tables' room, by type and name.
    refused: HashMap<(weft_proto::resource::ResourceType, String), String>,
    phase: Phase,
    synced_at: Option<Instant>,
    last_update: Option<Instant>,
    last_retry: Option<Instant>,
    wanted: watch::Sender<WantedPods>,
    /// Local pods that are out of the mesh.
    outsiders: watch::Sender<WantedPods>,
    /// SPIFFE IDs of local pods.
    identities: watch::Sender<BTreeSet<String>>,
    /// What is said about local backends.
    healths: watch::Sender<ServiceHealths>,
    /// How often anything may have changed.
    generation: u64,
}

/// How much the engine may take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not everything is known: add and change, delete nothing.
    Starting,
    /// First sync done; settles once the stream is quiet.
    Synced,
    /// What is not desired goes.
    Settled,
}

impl Engine {
    /// Takes over what the tables hold.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn new(
        tables: Tables,
        policy_tables: PolicyTables,
        config: EngineConfig,
    ) -> Result<Self, TableError> {
        let found = adopt::read(&tables)?;
        let policy_config = PolicyConfig {
            node: config.node.clone(),
            default: config.default_policy,
            opens_tunnels: config.has_proxy,
        };
        let policies = PolicyEngine::new(policy_tables, policy_config)?;
        let mut engine = Self {
            here: Here {
                node: config.node.clone(),
                zone: String::new(),
            },
            resources: Resources::new(config.has_proxy),
            config,
            policies,
            services: BTreeMap::new(),
            service_names: HashMap::new(),
            mirror: found.mirror,
            ids: found.ids,
            limits: found.limits,
            outside: found.outside,
            usage: found.usage,
            adopted: found.adopted,
            garbage: found.garbage,
            drains: Drains::default(),
            unowned: BTreeSet::new(),
            failures: BTreeMap::new(),
            vip_failures: BTreeMap::new(),
            refused: HashMap::new(),
            phase: Phase::Starting,
            synced_at: None,
            last_update: None,
            last_retry: None,
            wanted: watch::channel(WantedPods::default()).0,
            outsiders: watch::channel(WantedPods::default()).0,
            identities: watch::channel(BTreeSet::new()).0,
            healths: watch::channel(ServiceHealths::new()).0,
            generation: 0,
            tables,
        };
        engine.unowned.extend(engine.mirror.keys().copied());
        engine.repair_loads(&found.without_load);
        Ok(engine)
    }

    /// Everything has been received once: from now on a VIP without endpoints is refused, and, once the stream is quiet, what
    /// was found at start and nobody wants is deleted.
    pub fn set_synced(&mut self, now: Instant) {
        if self.phase == Phase::Starting {
            self.phase = Phase::Synced;
            self.synced_at = Some(now);
            self.forget_owned();
            if self.unowned.is_empty() && self.adopted.is_empty() {
                self.settle(now);
            }
        }
    }

    /// Whether [`Engine::set_synced`] was called.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.phase != Phase::Starting
    }

    /// All policies and workloads have been received once: from now on local pods are judged by them.
    pub fn set_policies_known(&mut self) {
        self.policies.set_synced();
        self.policies.apply();
    }

    /// What is known about local interfaces has changed.
    pub fn set_interfaces(&mut self, interfaces: LocalInterfaces) {
        self.policies.set_interfaces(interfaces);
        self.policies.apply();
    }

    /// The policies' side.
    #[must_use]
    pub const fn policies(&self) -> &PolicyEngine {
        &self.policies
    }

    /// No service ends a connection for its age sooner than after so many seconds; `None`: none ends any.
    pub(super) const fn shortest_age(&self) -> Option<NonZeroU32> {
        self.limits.shortest_age()
    }

    /// Time passes: settles, closes what has drained for too long, and tries again what failed.
    pub fn tick(&mut self, now: Instant) {
        if self.phase == Phase::Synced && self.is_quiet(now) {
            self.settle(now);
        }
        self.close_drained(now);
        let due = self
            .last_retry
            .is_none_or(|at| now.saturating_duration_since(at) >= self.config.retry);
        if due {
            self.last_retry = Some(now);
            self.retry(now);
            self.policies.retry();
        }
    }

    /// A server that goes on sending changes cannot put settling off forever.
    fn is_quiet(&self, now: Instant) -> bool {
        let age =
            |at: Option<Instant>| at.map_or(Duration::MAX, |at| now.saturating_duration_since(at));
        let since_any = age(self.last_update).min(age(self.synced_at));
        since_any >= self.config.settle || age(self.synced_at) >= self.config.settle * SETTLE_WAITS
    }

    /// Where to learn which local pods there are.
    #[must_use]
    pub fn wanted_pods(&self) -> WantedReceiver {
        self.wanted.subscribe()
    }

    /// Where to learn which local pods are out of the mesh.
    #[must_use]
    pub fn outsiders(&self) -> WantedReceiver {
        self.outsiders.subscribe()
    }

    /// Where to learn the SPIFFE IDs of local pods.
    #[must_use]
    pub fn identities(&self) -> watch::Receiver<BTreeSet<String>> {
        self.identities.subscribe()
    }

    /// Where to learn what to tell load balancers.
    #[must_use]
    pub fn healths(&self) -> watch::Receiver<ServiceHealths> {
        self.healths.subscribe()
    }

    fn tell_wanted(&self) {
        let local = self.resources.workloads.values();
        let local =
            local.filter(|w| w.node == self.here.node && !w.out_of_mesh && !w.spiffe_id.is_empty());
        let ids: BTreeSet<String> = local.map(|w| w.spiffe_id.clone()).collect();
        tell(&self.identities, ids);
        let complete = self.phase == Phase::Settled;
        for (told, out) in [(&self.wanted, false), (&self.outsiders, true)] {
            let workloads = self.resources.workloads.values();
            let mut wanted = WantedPods::of(workloads, &self.here.node, out, complete);
            if !out {
                wanted.behind_unaccelerated = self.resources.unaccelerated_endpoints();
            }
            tell(told, wanted);
        }
    }

    fn tell_unaccelerated(&self) {
        let now = self.resources.unaccelerated_endpoints();
        self.wanted.send_if_modified(|wanted| {
            let changed = wanted.behind_unaccelerated != now;
            wanted.behind_unaccelerated = now;
            changed
        });
    }

    fn settle(&mut self, now: Instant) {
        self.phase = Phase::Settled;
        self.tell_wanted();
        // Desired services without endpoints claim what is theirs only now.
        let waiting = self.unsettled_services();
        self.reconcile(waiting, now);
        self.discard_adopted();
        self.unguard_unowned();
        self.open_to_outside();
        self.sweep();
    }

    /// Services that stood back while not everything was known, and those that nobody wants.
    fn unsettled_services(&self) -> BTreeSet<ServiceName> {
        let r = &self.resources;
        let unwanted = self.services.keys().filter(|n| !r.vips.contains_key(*n));
        let waiting = r.vips.keys().filter(|n| {
            !self.services.contains_key(*n) || matches!(r.target(&n.cluster), Target::Missing)
        });
        let failed = self.failed_services();
        unwanted.chain(waiting).cloned().chain(failed).collect()
    }

    fn retry(&mut self, now: Instant) {
        if !self.failures.is_empty() || !self.vip_failures.is_empty() || self.has_leftovers() {
            let failed = self.failed_services();
            self.reconcile(failed, now);
        }
    }

    /// Services that are not as desired.
    fn failed_services(&self) -> BTreeSet<ServiceName> {
        let of_vips = self
            .vip_failures
            .keys()
            .filter_map(|key| self.resources.assignments.get(key));
        self.failures.keys().chain(of_vips).cloned().collect()
    }

    fn has_leftovers(&self) -> bool {
        let waiting =
            !self.unowned.is_empty() || !self.garbage.is_empty() || self.limits.has_leftovers();
        self.phase == Phase::Settled && waiting
    }

    fn service_id(&mut self) -> ServiceId {
        let Self {
            ids,
            services,
            mirror,
            adopted,
            garbage,
            limits,
            ..
        } = self;
        ids.service(|id| {
            services.values().any(|s| s.id == id)
                || mirror.values().any(|e| e.id == id)
                || adopted.contains(id)
                || garbage.mentions(id)
                || limits.mentions(id)
        })
    }
}

/// Wakes who listens only if there is something new.
fn tell<T: PartialEq>(listeners: &watch::Sender<T>, now: T) {
    listeners.send_if_modified(|known| {
        let changed = *known != now;
        *known = now;
        changed
    });
}

#[cfg(test)]
mod tests;
