//! The engine's state as people and metrics see it, in pages, so that a look never holds updates up for long.

use std::ops::Bound;

use weft_proto::model::{Health, Listener, Problem, Workload, WorkloadKind};
use weft_proto::resource::ResourceType;
use weft_proto::wire::admin::v1 as wire;

use super::resources::{Target, keys};
use super::service::{Service, ServiceName};
use super::{Engine, Rejection};
use crate::compile::{Family, NodeEndpoint};
use crate::limits::time_left;
use crate::policy::Shortage;
use crate::tables::{BackendLoad, MapUsage};

/// About this many rows go into a page.
const PAGE: usize = 1_000;

/// A part of a list, and the key after which the next one begins; `None` at the end.
#[derive(Clone, Debug)]
pub struct Page<T, K> {
    /// Rows in order of their keys.
    pub rows: Vec<T>,
    /// Where to go on.
    pub next: Option<K>,
}

/// The engine in a few numbers.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Everything has been received once.
    pub synced: bool,
    /// What earlier agents left and nobody wants is deleted.
    pub settled: bool,
    /// Of judgements from now on, see [`crate::policy::PolicyEngine::epoch`].
    pub policy_epoch: u32,
    /// Use of each table.
    pub maps: Vec<MapUsage>,
    /// Resources in effect, by type.
    pub resources: Vec<(ResourceType, usize)>,
    /// Resources not wholly in effect.
    pub rejections: Vec<(ResourceType, Rejection)>,
    /// Local pods whose policy is not in the kernel, by resource name.
    pub unjudged: Vec<String>,
    /// Who is refused for want of room.
    pub shortage: Shortage,
}

impl Engine {
    /// Numbers for status and metrics.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let r = &self.resources;
        let endpoints = r.endpoints.values();
        let here = endpoints.filter(|e| matches!(e, super::resources::EndpointsState::Here(_)));
        let mut maps = self.usage.all().to_vec();
        maps.extend(self.policies.usage());
        Summary {
            synced: self.is_synced(),
            settled: self.is_settled(),
            policy_epoch: self.policies.epoch(),
            maps,
            resources: vec![
                (ResourceType::Cluster, r.clusters.len()),
                (ResourceType::Endpoints, here.count()),
                (ResourceType::Listener, r.listeners.len()),
                (ResourceType::Policy, self.policies.names().count()),
                (ResourceType::Workload, r.workloads.len()),
                (ResourceType::Problem, r.problems.len()),
            ],
            rejections: self.rejections(),
            unjudged: self.unjudged_pods(),
            shortage: self.policies.shortage(),
        }
    }

    /// Local pods whose policy is not in the kernel, by resource name.
    #[must_use]
    pub fn unjudged_pods(&self) -> Vec<String> {
        self.policies.unjudged().map(ToOwned::to_owned).collect()
    }

    /// What the control plane wants people to mend.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.resources.problems.values().cloned().collect()
    }

    /// Service ports by listener name.
    #[must_use]
    pub fn services(&self, after: Option<&str>) -> Page<wire::Service, String> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rows = Vec::new();
        let mut backends = 0;
        for (name, listener) in self
            .resources
            .listeners
            .range::<str, _>((start, Bound::Unbounded))
        {
            let row = self.service_row(listener);
            backends += 1 + row.ready as usize;
            rows.push(row);
            if backends >= PAGE {
                let next = Some(name.clone());
                return Page { rows, next };
            }
        }
        Page { rows, next: None }
    }

    fn service_row(&self, listener: &Listener) -> wire::Service {
        let cluster = self.resources.clusters.get(listener.cluster.as_str());
        let mut row = wire::Service {
            service: service_name(listener),
            port_name: port_name(listener),
            addresses: listener.addresses.iter().map(ToString::to_string).collect(),
            port: listener.port.into(),
            protocol: listener.protocol.to_string(),
            policy: cluster.map_or_else(String::new, |c| c.policy.as_str().to_owned()),
            locality: cluster.map_or_else(String::new, |c| c.locality.as_str().to_owned()),
            affinity_seconds: cluster.and_then(|c| c.affinity).map_or(0, |a| a.as_secs()),
            cluster: listener.cluster.clone(),
            listener: listener.name.clone(),
            side: listener.side.as_str().to_owned(),
            ..Default::default()
        };
        for family in Family::ALL {
            if keys(listener).any(|key| Family::of(key.address) == family) {
                self.add_family(&mut row, &listener.cluster, family);
            }
        }
        row
    }

    fn add_family(&self, row: &mut wire::Service, cluster: &str, family: Family) {
        let name = ServiceName {
            cluster: cluster.into(),
            family,
        };
        let service = self.services.get(&name);
        if let Some(service) = service {
            row.ids.push(service.id.0);
            self.add_limits(row, service);
            row.total_connections += service.retired_total;
            for backend in &service.backends {
                let load = self.load(backend.id);
                row.open_connections += load.open;
                row.total_connections += load.total;
                row.ready += u32::from(backend.accepts);
            }
        }
        for endpoint in self.endpoints(&name) {
            match endpoint.health {
                Health::Draining => row.draining += 1,
                Health::Unhealthy => row.unhealthy += 1,
                Health::Healthy => {}
            }
        }
    }

    fn add_limits(&self, row: &mut wire::Service, service: &Service) {
        let settings = &service.settings;
        if settings.is_empty() {
            return;
        }
        let state = self.tables.states.get(&service.id);
        let state = state.ok().flatten().unwrap_or_default();
        let limits = row.limits.get_or_insert_default();
        // Alike in both families.
        limits.connect_timeout_ms = settings.connect_ms.into();
        limits.idle_timeout_seconds = settings.idle_seconds.into();
        limits.max_duration_seconds = settings.lifetime_seconds.into();
        limits.max_connections = settings.max_connections.into();
        limits.connections_per_second = settings.connections_per_second.into();
        limits.consecutive_failures = settings.consecutive_failures;
        limits.base_ejection_ms = settings.base_ejection_ms.into();
        limits.max_ejected_percent = settings.max_ejected_percent;
        limits.open += state.open;
        limits.limited += state.limited;
        limits.rate_limited += state.rate_limited;
        limits.timed_out += state.timed_out;
        limits.ejected += state.ejected;
        limits.ejections += state.ejections;
    }

    fn endpoints(&self, name: &ServiceName) -> impl Iterator<Item = &NodeEndpoint> {
        let list = match self.resources.target(&name.cluster) {
            Target::Here(_, list) => list,
            Target::Pending | Target::Missing => &[],
        };
        let family = name.family;
        list.iter()
            .filter(move |e| Family::of(e.address.ip()) == family)
    }

    fn load(&self, id: crate::tables::BackendId) -> BackendLoad {
        self.tables
            .loads
            .get(&id)
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// Endpoints of every service that has VIPs.
    #[must_use]
    pub fn backends(&self, after: Option<&ServiceName>) -> Page<wire::Backend, ServiceName> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rows = Vec::new();
        for (name, vips) in self.resources.vips.range((start, Bound::Unbounded)) {
            let listener = vips.first().and_then(|vip| self.resources.owner(vip));
            let service = self.services.get(name);
            for endpoint in self.endpoints(name) {
                rows.push(self.backend_row(name, listener, service, endpoint));
            }
            if rows.len() >= PAGE {
                let next = Some(name.clone());
                return Page { rows, next };
            }
        }
        Page { rows, next: None }
    }

    fn backend_row(
        &self,
        name: &ServiceName,
        listener: Option<&Listener>,
        service: Option<&Service>,
        endpoint: &NodeEndpoint,
    ) -> wire::Backend {
        let backend = service.and_then(|s| s.backend(&endpoint.address));
        let load = backend.map_or_else(BackendLoad::default, |b| self.load(b.id));
        let health = backend.and_then(|b| self.tables.health.get(&b.id).ok()?);
        let health = health.unwrap_or_default();
        let workload = self.resources.workload_at(endpoint.address.ip());
        wire::Backend {
            service: listener.map_or_else(String::new, service_name),
            cluster: name.cluster.to_string(),
            address: endpoint.address.ip().to_string(),
            port: endpoint.address.port().into(),
            protocol: listener.map_or_else(String::new, |l| l.protocol.to_string()),
            health: endpoint.health.as_str().to_owned(),
            selected: backend.is_some_and(|b| b.accepts),
            weight: endpoint.weight,
            workload: workload.unwrap_or_default().to_owned(),
            node: endpoint.locality.node.clone(),
            zone: endpoint.locality.zone.clone(),
            open_connections: load.open,
            total_connections: load.total,
            id: backend.map_or(0, |b| b.id.0),
            ejected_for_ms: time_left(health.ejected_until_ns),
            failures: health.failures,
            rtt_us: load.srtt_us,
        }
    }

    /// Pods and nodes by resource name.
    #[must_use]
    pub fn workloads(&self, after: Option<&str>) -> Page<wire::Workload, String> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self
            .resources
            .workloads
            .range::<str, _>((start, Bound::Unbounded));
        let mut rows = Vec::new();
        for (name, workload) in range {
            rows.push(self.workload_row(workload));
            if rows.len() >= PAGE {
                let next = Some(name.clone());
                return Page { rows, next };
            }
        }
        Page { rows, next: None }
    }

    fn workload_row(&self, workload: &Workload) -> wire::Workload {
        let kind = match workload.kind {
            WorkloadKind::Pod => "pod",
            WorkloadKind::Node => "node",
        };
        wire::Workload {
            kind: kind.to_owned(),
            namespace: workload.namespace.clone(),
            // "pod/<namespace>/<name>" or "node/<name>"
            name: workload
                .name
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned(),
            addresses: workload.addresses.iter().map(ToString::to_string).collect(),
            node: workload.node.clone(),
            zone: workload.zone.clone(),
            service_account: workload.service_account.clone(),
            labels: workload.labels.clone().into_iter().collect(),
            spiffe_id: workload.spiffe_id.clone(),
            host_network: workload.host_network,
            local: workload.node == self.here.node,
        }
    }
}

pub(super) fn service_name(listener: &Listener) -> String {
    let service = listener.service.as_ref();
    service.map_or_else(|| listener.name.clone(), ToString::to_string)
}

fn port_name(listener: &Listener) -> String {
    let service = listener.service.as_ref();
    service.map_or_else(String::new, |s| s.port_name.clone())
}
