//! A control plane's state, and the plainest statement of what a node has to make of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use weft_proto::model::{
    Cluster, ClusterEndpoints, Endpoint, EndpointSource, Health, Layer, LbPolicy, Listener,
    Locality, LocalityMode, Protocol, Resource, Workload, WorkloadKind,
};
use weft_proto::resource::ResourceType;

use super::kernel::{Kernel, Recorder};
use crate::compile::LocalityPool;
use crate::engine::{Applied, Engine, EngineConfig, NodeResource, Update};
use crate::tables::{ServiceKey, memory};

pub(super) const NODE: &str = "here";

pub(super) fn listener(name: &str, vips: &[&str], cluster: &str) -> Listener {
    Listener {
        name: name.to_owned(),
        service: None,
        addresses: vips.iter().map(|v| v.parse().expect("address")).collect(),
        port: 80,
        protocol: Protocol::Tcp,
        cluster: cluster.to_owned(),
        layer: Layer::Four,
        side: weft_proto::model::Side::Inside,
        source_ranges: Vec::new(),
        health_check_port: None,
        idle_timeout: None,
        max_duration: None,
        connections_per_second: None,
    }
}

pub(super) fn cluster(name: &str, policy: LbPolicy, locality: LocalityMode) -> Cluster {
    Cluster {
        name: name.to_owned(),
        endpoints: EndpointSource::Eds(name.to_owned()),
        policy,
        affinity: None,
        locality,
        connect_timeout: None,
        max_connections: None,
        outlier: None,
        unaccelerated: false,
        http: false,
    }
}

pub(super) fn endpoint(address: &str, weight: u32, health: Health, node: &str) -> Endpoint {
    Endpoint {
        address: address.parse().expect("address"),
        weight,
        priority: 0,
        health,
        locality: Locality {
            zone: String::new(),
            node: node.to_owned(),
        },
    }
}

pub(super) fn healthy(addresses: &[&str]) -> Vec<Endpoint> {
    let one = |a: &&str| endpoint(a, 1, Health::Healthy, "");
    addresses.iter().map(one).collect()
}

pub(super) fn pod(name: &str, address: IpAddr) -> Workload {
    Workload {
        name: name.to_owned(),
        kind: WorkloadKind::Pod,
        addresses: vec![address],
        node: String::new(),
        zone: String::new(),
        namespace: String::new(),
        service_account: String::new(),
        labels: BTreeMap::new(),
        spiffe_id: String::new(),
        host_network: false,
        unaccelerated: false,
        out_of_mesh: false,
        mtls: Default::default(),
        ports: Vec::new(),
    }
}

pub(super) fn vip(address: &str) -> ServiceKey {
    ServiceKey {
        address: address.parse().expect("address"),
        port: 80,
        protocol: Protocol::Tcp,
        side: weft_proto::model::Side::Inside,
    }
}

/// What the control plane says at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) clusters: BTreeMap<String, Cluster>,
    pub(super) endpoints: BTreeMap<String, Vec<Endpoint>>,
    pub(super) listeners: BTreeMap<String, Listener>,
    pub(super) workloads: BTreeMap<String, Workload>,
}

impl World {
    /// The listener that has `vip`.
    pub(super) fn owner(&self, vip: &ServiceKey) -> Option<&Listener> {
        self.listeners.values().find(|l| {
            l.port == vip.port && l.protocol == vip.protocol && l.addresses.contains(&vip.address)
        })
    }

    /// The limit of connections to `vip`.
    pub(super) fn limit(&self, vip: &ServiceKey) -> Option<u32> {
        let cluster = self.clusters.get(&self.owner(vip)?.cluster)?;
        let known = match &cluster.endpoints {
            EndpointSource::Static(_) => true,
            EndpointSource::Eds(name) => self.endpoints.contains_key(name),
        };
        cluster.max_connections.filter(|_| known)
    }

    /// Who takes connections to `vip`, and by which policy.
    pub(super) fn expected(
        &self,
        vip: &ServiceKey,
    ) -> Option<(BTreeMap<SocketAddr, u32>, LbPolicy)> {
        let owner = self.owner(vip)?;
        let Some(cluster) = self.clusters.get(&owner.cluster) else {
            return Some((BTreeMap::new(), LbPolicy::Random));
        };
        let all = match &cluster.endpoints {
            EndpointSource::Static(list) => list.clone(),
            EndpointSource::Eds(name) => self.endpoints.get(name).cloned().unwrap_or_default(),
        };
        let mut usable: Vec<Endpoint> = all
            .into_iter()
            .filter(|e| e.address.is_ipv4() == vip.address.is_ipv4())
            .filter(|e| cluster.locality != LocalityMode::NodeOnly || e.locality.node == NODE)
            .filter(|e| e.health != Health::Unhealthy)
            .collect();
        if usable.iter().any(|e| e.health == Health::Healthy) {
            usable.retain(|e| e.health == Health::Healthy);
        }
        let lowest = usable.iter().map(|e| e.priority).min();
        usable.retain(|e| Some(e.priority) == lowest);
        let near = |e: &Endpoint| e.locality.node == NODE && e.health == Health::Healthy;
        if cluster.locality == LocalityMode::PreferNode && usable.iter().any(near) {
            usable.retain(near);
        }
        let weights = usable.into_iter().map(|e| (e.address, e.weight));
        Some((weights.collect(), cluster.policy))
    }
}

/// An engine over a kernel, fed as a client would feed it.
pub(super) struct Node {
    pub(super) engine: Engine,
    pub(super) kernel: Kernel,
    pub(super) now: Instant,
    pool: LocalityPool,
}

impl Node {
    /// A node that begins with empty tables and is in sync with an empty control plane.
    pub(super) fn started(kernel: &Kernel) -> Self {
        let mut node = Self::starting(kernel);
        node.sync();
        node
    }

    /// A node that has not heard anything yet.
    pub(super) fn starting(kernel: &Kernel) -> Self {
        let mut config = EngineConfig::new(NODE);
        config.drain_timeout = Duration::from_secs(600);
        Self {
            engine: Engine::new(kernel.tables(), memory::policy_tables(1_000), config)
                .expect("tables can be read"),
            kernel: kernel.clone(),
            now: Instant::now(),
            pool: LocalityPool::default(),
        }
    }

    pub(super) fn sync(&mut self) {
        self.engine.set_synced(self.now);
        self.pass(Duration::from_secs(2));
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.engine.tick(self.now);
        self.close();
    }

    fn close(&mut self) {
        let mut recorder = Recorder(self.kernel.clone());
        self.engine.close_gone(&mut recorder, self.now);
    }

    pub(super) fn apply(&mut self, update: Update) -> Applied {
        let applied = self.engine.apply(update, self.now);
        self.close();
        applied
    }

    pub(super) fn set(&mut self, resource: Resource) -> Applied {
        let mut update = Update::new(resource.resource_type());
        let name = resource.name();
        let resource = NodeResource::new(resource, &mut self.pool).unwrap();
        update.upserts.push((name, resource));
        self.apply(update)
    }

    pub(super) fn remove(&mut self, resource_type: ResourceType, name: &str) -> Applied {
        let mut update = Update::new(resource_type);
        update.removals.push(name.to_owned());
        self.apply(update)
    }

    pub(super) fn set_endpoints(&mut self, name: &str, endpoints: Vec<Endpoint>) -> Applied {
        let name = name.to_owned();
        self.set(Resource::Endpoints(ClusterEndpoints { name, endpoints }))
    }

    /// A service with one VIP and these endpoints, all named `name`.
    pub(super) fn add_service(&mut self, name: &str, vips: &[&str], endpoints: Vec<Endpoint>) {
        self.set(Resource::Cluster(cluster(
            name,
            LbPolicy::Random,
            LocalityMode::None,
        )));
        self.set_endpoints(name, endpoints);
        self.set(Resource::Listener(listener(name, vips, name)));
    }

    /// Answers subscriptions as the control plane does.
    pub(super) fn answer(&mut self, applied: &Applied, world: &World) {
        for name in &applied.subscribe {
            match world.endpoints.get(name) {
                Some(list) => self.set_endpoints(name, list.clone()),
                None => self.remove(ResourceType::Endpoints, name),
            };
        }
    }

    /// Everything, as after a reconnect without memory.
    pub(super) fn replay(&mut self, world: &World) {
        for cluster in world.clusters.values() {
            let applied = self.set(Resource::Cluster(cluster.clone()));
            self.answer(&applied, world);
        }
        for workload in world.workloads.values() {
            self.set(Resource::Workload(workload.clone()));
        }
        for listener in world.listeners.values() {
            self.set(Resource::Listener(listener.clone()));
        }
    }

    pub(super) fn addresses(&self, vip: &ServiceKey) -> Option<BTreeSet<SocketAddr>> {
        Some(self.kernel.landing(vip)?.into_keys().collect())
    }

    pub(super) fn assert_sound(&self) {
        assert_eq!(self.kernel.violations(), Vec::<String>::new());
    }
}

pub(super) fn addresses(list: &[&str]) -> Option<BTreeSet<SocketAddr>> {
    Some(list.iter().map(|a| a.parse().expect("address")).collect())
}
