//! One service: what the tables should hold, against what they hold.

use std::net::SocketAddr;

use weft_proto::model::{Health, LbPolicy, LocalityMode};
use xxhash_rust::xxh3::Xxh3;

use super::resources::Target;
use super::service::{Backend, Service, ServiceName};
use super::sweep::{Leaving, Rule};
use super::{Engine, Phase};
use crate::compile::{Family, Member, NodeEndpoint, select, slots};
use crate::limits::settings;
use crate::tables::{BackendEntry, BackendId, Generation, ServiceId, ServiceSettings, Slot};

/// The writes that bring one service to what is desired.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: ServiceName,
    pub(super) id: ServiceId,
    /// Ids that this plan made up.
    pub(super) fresh: Vec<BackendId>,
    /// Written before the flip: new backends, and those that take connections from now on.
    pub(super) before: Vec<(BackendId, BackendEntry)>,
    /// What `before` replaces.
    pub(super) undo: Vec<(BackendId, BackendEntry)>,
    /// Written after the flip: backends that take no connections any more.
    pub(super) after: Vec<(BackendId, BackendEntry)>,
    /// A new slot set, if the layout changed.
    pub(super) layout: Option<Layout>,
    /// What the service has once all is written.
    pub(super) backends: Vec<Backend>,
    pub(super) leaving: Vec<Leaving>,
    pub(super) drains: Vec<DrainState>,
    pub(super) policy: LbPolicy,
    pub(super) affinity_seconds: u32,
    pub(super) unaccelerated: bool,
    pub(super) node_only: bool,
    pub(super) settings: ServiceSettings,
    /// Pods reach it through Envoy.
    pub(super) layer7: bool,
    /// Round robin without a position yet.
    pub(super) needs_cursor: bool,
    /// How many of `fresh` stand in `loads` and in `backends` as far as usage is counted.
    pub(super) counted: Counted,
    /// Why it cannot be carried out.
    pub(super) failed: Option<String>,
}

/// New entries of a plan that usage has counted.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) loads: usize,
    pub(super) backends: usize,
}

/// A slot set not yet written.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) generation: Generation,
    pub(super) fingerprint: u128,
    pub(super) slots: Vec<Slot>,
}

/// What is wanted of a service.
struct Desired<'a> {
    endpoints: &'a [NodeEndpoint],
    selected: Vec<&'a NodeEndpoint>,
    policy: LbPolicy,
    affinity_seconds: u32,
    unaccelerated: bool,
    node_only: bool,
    settings: ServiceSettings,
    layer7: bool,
    /// The endpoints resource is there: what it does not list was taken out of it.
    exists: bool,
}

impl Engine {
    /// Compares and plans. `None` when the service should stay as it is for now.
    pub(super) fn plan(&mut self, name: &ServiceName) -> Option<Plan> {
        let desired = match self.resources.target(&name.cluster) {
            Target::Here(cluster, endpoints) => {
                let selected = select(endpoints, name.family, cluster.locality, &self.here);
                Desired {
                    endpoints,
                    policy: cluster.policy,
                    affinity_seconds: cluster.affinity.map_or(0, whole_seconds),
                    unaccelerated: cluster.unaccelerated,
                    node_only: cluster.locality == LocalityMode::NodeOnly,
                    settings: settings(cluster, self.resources.listeners_of(name), selected.len()),
                    selected,
                    layer7: self.resources.is_layer7(name),
                    exists: true,
                }
            }
            // A working service is not taken away because its new endpoints are still to come.
            Target::Pending if self.services.contains_key(name) => return None,
            Target::Missing if self.phase == Phase::Starting => return None,
            Target::Pending | Target::Missing => Desired {
                endpoints: &[],
                selected: Vec::new(),
                policy: LbPolicy::Random,
                affinity_seconds: 0,
                unaccelerated: false,
                node_only: false,
                settings: ServiceSettings::default(),
                layer7: self.resources.is_layer7(name),
                exists: false,
            },
        };
        let service = self.services.get(name)?;
        let mut merge = Merge::new(service, name.family);
        for endpoint in desired.endpoints {
            merge.endpoint(endpoint, &desired.selected, || {
                self.ids.backend(&self.tables)
            });
        }
        let rule = match desired.exists {
            true => Rule::Close,
            false => Rule::CloseUnlessWorkload,
        };
        let leaving = merge.leaving(rule);
        let mut plan = merge.plan;
        plan.name = name.clone();
        plan.policy = desired.policy;
        plan.affinity_seconds = desired.affinity_seconds;
        plan.unaccelerated = desired.unaccelerated;
        plan.node_only = desired.node_only;
        plan.settings = desired.settings;
        plan.layer7 = desired.layer7;
        plan.needs_cursor = desired.policy == LbPolicy::RoundRobin && !service.has_cursor;
        plan.leaving = leaving;
        plan.layout = layout(service, desired.policy, &merge.members, |generation| {
            self.garbage.has_generation(service.id, generation)
        });
        Some(plan)
    }
}

fn whole_seconds(affinity: std::time::Duration) -> u32 {
    u32::try_from(affinity.as_secs()).unwrap_or(u32::MAX).max(1)
}

/// A listed backend, whether it drains and whether it takes connections.
#[derive(Debug)]
pub(super) struct DrainState {
    pub(super) id: BackendId,
    pub(super) draining: bool,
    pub(super) accepts: bool,
}

/// Walks the desired endpoints, sorted by address, along the backends that are there, sorted alike.
struct Merge<'a> {
    service: &'a Service,
    family: Family,
    next_selected: usize,
    members: Vec<Member>,
    plan: Plan,
}

impl<'a> Merge<'a> {
    fn new(service: &'a Service, family: Family) -> Self {
        Self {
            service,
            family,
            next_selected: 0,
            members: Vec::new(),
            plan: Plan {
                name: ServiceName {
                    cluster: "".into(),
                    family,
                },
                id: service.id,
                fresh: Vec::new(),
                before: Vec::new(),
                undo: Vec::new(),
                after: Vec::new(),
                layout: None,
                backends: Vec::with_capacity(service.backends.len()),
                leaving: Vec::new(),
                drains: Vec::new(),
                policy: LbPolicy::Random,
                affinity_seconds: 0,
                unaccelerated: false,
                node_only: false,
                settings: ServiceSettings::default(),
                layer7: false,
                needs_cursor: false,
                counted: Counted::default(),
                failed: None,
            },
        }
    }

    fn endpoint(
        &mut self,
        endpoint: &NodeEndpoint,
        selected: &[&NodeEndpoint],
        new_id: impl FnOnce() -> BackendId,
    ) {
        if Family::of(endpoint.address.ip()) != self.family {
            return;
        }
        let accepts = selected
            .get(self.next_selected)
            .is_some_and(|s| s.address == endpoint.address);
        self.next_selected += usize::from(accepts);
        let known = self.service.backend(&endpoint.address).copied();
        let id = match known {
            Some(backend) => backend.id,
            None if accepts => {
                let id = new_id();
                self.plan.fresh.push(id);
                id
            }
            // Nothing ever connected to it, and nothing will.
            None => return,
        };
        let backend = Backend {
            address: endpoint.address,
            id,
            weight: endpoint.weight,
            accepts,
            certain: true,
        };
        self.write(known, backend);
        self.plan.drains.push(DrainState {
            id,
            draining: endpoint.health == Health::Draining,
            accepts,
        });
        if accepts {
            self.members.push(Member {
                backend: id,
                address: endpoint.address,
                weight: endpoint.weight,
            });
        }
        self.plan.backends.push(backend);
    }

    fn write(&mut self, known: Option<Backend>, backend: Backend) {
        if known == Some(backend) {
            return;
        }
        let entry = backend.entry(self.service.id);
        if backend.accepts {
            self.plan.before.push((backend.id, entry));
            let old = known.map(|old| (old.id, old.entry(self.service.id)));
            self.plan.undo.extend(old);
        } else {
            self.plan.after.push((backend.id, entry));
        }
    }

    /// Backends that are not listed any more.
    fn leaving(&self, rule: Rule) -> Vec<Leaving> {
        let listed = &self.plan.backends;
        let is_listed =
            |address: &SocketAddr| listed.binary_search_by_key(address, |b| b.address).is_ok();
        self.service
            .backends
            .iter()
            .filter(|b| !is_listed(&b.address))
            .map(|b| Leaving {
                id: b.id,
                address: b.address,
                service: self.service.id,
                rule,
            })
            .collect()
    }
}

/// A new slot set if what slots are made from changed.
fn layout(
    service: &Service,
    policy: LbPolicy,
    members: &[Member],
    in_use: impl Fn(Generation) -> bool,
) -> Option<Layout> {
    let fingerprint = fingerprint(policy, members);
    if service.layout == Some(fingerprint) {
        return None;
    }
    let slots = slots(policy, members);
    // The earlier agent may have written the very same.
    if service.adopted_slots.as_ref() == Some(&slots) {
        return Some(Layout {
            generation: service.generation,
            fingerprint,
            slots: Vec::new(),
        });
    }
    let mut generation = next(service.generation);
    // What a killed agent left of a generation must not mix with ours.
    while in_use(generation) {
        generation = next(generation);
    }
    Some(Layout {
        generation,
        fingerprint,
        slots,
    })
}

fn next(generation: Generation) -> Generation {
    Generation(generation.0.wrapping_add(1))
}

fn fingerprint(policy: LbPolicy, members: &[Member]) -> u128 {
    let mut hash = Xxh3::new();
    // Least request and random share their slots.
    hash.update(&[match policy {
        LbPolicy::Random | LbPolicy::LeastRequest => 0,
        LbPolicy::RoundRobin => 1,
        LbPolicy::Maglev => 2,
    }]);
    for member in members {
        hash.update(&member.backend.0.to_le_bytes());
        hash.update(&member.weight.to_le_bytes());
    }
    hash.digest128()
}
