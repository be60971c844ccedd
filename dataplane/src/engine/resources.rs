//! What the control plane has told, and who refers to whom.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use weft_proto::model::{Layer, Listener, Problem, Workload};

use super::service::ServiceName;
use super::update::{NodeCluster, NodeEndpointSource};
use crate::compile::{Family, NodeEndpoint};
use crate::tables::ServiceKey;

/// Endpoints of a name that some cluster asks for.
#[derive(Debug)]
pub(super) enum EndpointsState {
    /// Asked for; no answer yet.
    Pending,
    /// The server has none of this name, or has not said in time.
    Absent,
    /// These.
    Here(Vec<NodeEndpoint>),
}

/// What stands behind a cluster's name.
pub(super) enum Target<'a> {
    /// Nothing yet: wait.
    Pending,
    /// Nothing: refuse connections.
    Missing,
    /// A cluster and its endpoints.
    Here(&'a NodeCluster, &'a [NodeEndpoint]),
}

/// All accepted resources and their indexes.
#[derive(Default)]
pub(super) struct Resources {
    pub(super) listeners: BTreeMap<String, Listener>,
    pub(super) clusters: BTreeMap<Arc<str>, NodeCluster>,
    /// Exactly the names that clusters ask for.
    pub(super) endpoints: BTreeMap<Arc<str>, EndpointsState>,
    pub(super) workloads: BTreeMap<String, Workload>,
    pub(super) problems: BTreeMap<String, Problem>,
    /// Clusters whose connections stay with TCP.
    unaccelerated: BTreeSet<Arc<str>>,
    /// Clusters by the endpoints they ask for.
    askers: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Listeners that want a VIP, by name; the first has it.
    claims: BTreeMap<ServiceKey, BTreeSet<String>>,
    /// The service behind each VIP.
    pub(super) assignments: BTreeMap<ServiceKey, ServiceName>,
    /// VIPs of each service: the inverse of `assignments`.
    pub(super) vips: BTreeMap<ServiceName, BTreeSet<ServiceKey>>,
    /// This node has an Envoy.
    pub(super) has_proxy: bool,
    /// Listeners by the port at which they want health to be told.
    checked: BTreeMap<u16, BTreeSet<String>>,
    /// Workloads by address.
    workload_names: HashMap<IpAddr, BTreeSet<String>>,
}

/// What a change of resources touches.
#[derive(Default)]
pub(super) struct Touched {
    /// Services to compile anew.
    pub(super) services: BTreeSet<ServiceName>,
    /// VIPs that no listener wants any more.
    pub(super) unowned: BTreeSet<ServiceKey>,
    pub(super) subscribe: Vec<String>,
    pub(super) unsubscribe: Vec<String>,
}

impl Touched {
    fn cluster(&mut self, cluster: &Arc<str>) {
        for family in Family::ALL {
            self.services.insert(ServiceName {
                cluster: Arc::clone(cluster),
                family,
            });
        }
    }
}

/// The VIPs of a listener.
pub(super) fn keys(listener: &Listener) -> impl Iterator<Item = ServiceKey> + '_ {
    listener.addresses.iter().map(|address| ServiceKey {
        address: address.to_canonical(),
        port: listener.port,
        protocol: listener.protocol,
        side: listener.side,
    })
}

impl Resources {
    /// None yet; `has_proxy`: this node has an Envoy.
    pub(super) fn new(has_proxy: bool) -> Self {
        Self {
            has_proxy,
            ..Self::default()
        }
    }

    pub(super) fn target(&self, cluster: &str) -> Target<'_> {
        let Some(found) = self.clusters.get(cluster) else {
            return Target::Missing;
        };
        match &found.source {
            NodeEndpointSource::Static(list) => Target::Here(found, list),
            NodeEndpointSource::Eds(name) => match self.endpoints.get(name) {
                Some(EndpointsState::Here(list)) => Target::Here(found, list),
                Some(EndpointsState::Absent) => Target::Missing,
                Some(EndpointsState::Pending) | None => Target::Pending,
            },
        }
    }

    /// # Errors
    /// When this node cannot serve it; the last good state stays.
    pub(super) fn set_listener(
        &mut self,
        name: String,
        listener: Listener,
        touched: &mut Touched,
    ) -> Result<(), String> {
        if listener.layer == Layer::Seven && !self.has_proxy {
            return Err("needs layer 7, which this node has not: no Envoy".to_owned());
        }
        if self.listeners.get(&name) == Some(&listener) {
            return Ok(());
        }
        let mut changed: BTreeSet<ServiceKey> = keys(&listener).collect();
        if let Some(old) = self.listeners.get(&name) {
            changed.extend(self.unclaim(&name, old.clone()));
        }
        for key in keys(&listener) {
            self.claims.entry(key).or_default().insert(name.clone());
        }
        if let Some(port) = listener.health_check_port {
            self.checked.entry(port).or_default().insert(name.clone());
        }
        self.listeners.insert(name, listener);
        changed.into_iter().for_each(|k| self.assign(k, touched));
        Ok(())
    }

    pub(super) fn remove_listener(&mut self, name: &str, touched: &mut Touched) {
        if let Some(old) = self.listeners.remove(name) {
            for key in self.unclaim(name, old) {
                self.assign(key, touched);
            }
        }
    }

    fn unclaim(&mut self, name: &str, listener: Listener) -> Vec<ServiceKey> {
        if let Some(port) = listener.health_check_port
            && let Some(names) = self.checked.get_mut(&port)
        {
            names.remove(name);
            if names.is_empty() {
                self.checked.remove(&port);
            }
        }
        let keys: Vec<_> = keys(&listener).collect();
        for key in &keys {
            if let Some(names) = self.claims.get_mut(key) {
                names.remove(name);
                if names.is_empty() {
                    self.claims.remove(key);
                }
            }
        }
        keys
    }

    /// Gives a VIP to the first listener that wants it.
    fn assign(&mut self, key: ServiceKey, touched: &mut Touched) {
        let wanted = self.owner(&key).map(|listener| ServiceName {
            cluster: self
                .clusters
                .get_key_value(listener.cluster.as_str())
                .map_or_else(|| listener.cluster.as_str().into(), |(k, _)| Arc::clone(k)),
            family: Family::of(key.address),
        });
        let had = self.assignments.get(&key).cloned();
        if had == wanted {
            // Another listener's timeouts and limits may count from now on.
            touched.services.extend(wanted);
            return;
        }
        if let Some(had) = had {
            if let Some(vips) = self.vips.get_mut(&had) {
                vips.remove(&key);
                if vips.is_empty() {
                    self.vips.remove(&had);
                }
            }
            self.assignments.remove(&key);
            touched.services.insert(had);
        }
        match wanted {
            Some(name) => {
                touched.unowned.remove(&key);
                touched.services.insert(name.clone());
                self.vips.entry(name.clone()).or_default().insert(key);
                self.assignments.insert(key, name);
            }
            None => {
                touched.unowned.insert(key);
            }
        }
    }

    /// Listeners by the port at which they want health to be told.
    pub(super) fn health_checks(&self) -> impl Iterator<Item = (u16, Vec<&Listener>)> {
        self.checked.iter().map(|(port, names)| {
            let listeners = names.iter().filter_map(|name| self.listeners.get(name));
            (*port, listeners.collect())
        })
    }

    /// The listener that has this VIP.
    pub(super) fn owner(&self, key: &ServiceKey) -> Option<&Listener> {
        self.listeners.get(self.claims.get(key)?.first()?)
    }

    /// The listeners that lead to a service.
    pub(super) fn listeners_of(&self, name: &ServiceName) -> impl Iterator<Item = &Listener> {
        let vips = self.vips.get(name).into_iter().flatten();
        vips.filter_map(|vip| self.owner(vip))
    }

    /// Whether pods reach a service through Envoy.
    pub(super) fn is_layer7(&self, name: &ServiceName) -> bool {
        self.listeners_of(name).any(|l| l.layer == Layer::Seven)
    }

    /// The first VIP that `listener` wants and another has, and who that is.
    pub(super) fn lost<'a>(
        &'a self,
        name: &str,
        listener: &Listener,
    ) -> Option<(ServiceKey, &'a str)> {
        keys(listener).find_map(|key| {
            let first = self.claims.get(&key)?.first()?;
            (first != name).then_some((key, first.as_str()))
        })
    }

    /// Listeners that do not have all VIPs they want.
    pub(super) fn losers(&self) -> impl Iterator<Item = &str> {
        let later = self.claims.values().flat_map(|names| names.iter().skip(1));
        later.map(String::as_str)
    }

    pub(super) fn set_cluster(&mut self, name: &str, cluster: NodeCluster, touched: &mut Touched) {
        if self.clusters.get(name) == Some(&cluster) {
            return;
        }
        let name = match self.clusters.get_key_value(name) {
            Some((known, _)) => Arc::clone(known),
            None => name.into(),
        };
        let asked = eds_name(Some(&cluster));
        let before = eds_name(self.clusters.get(&name));
        match cluster.unaccelerated {
            true => self.unaccelerated.insert(Arc::clone(&name)),
            false => self.unaccelerated.remove(&name),
        };
        self.clusters.insert(Arc::clone(&name), cluster);
        self.move_asker(&name, before, asked, touched);
        touched.cluster(&name);
    }

    pub(super) fn remove_cluster(&mut self, name: &str, touched: &mut Touched) {
        if let Some((name, cluster)) = self.clusters.remove_entry(name) {
            self.unaccelerated.remove(&name);
            self.move_asker(&name, eds_name(Some(&cluster)), None, touched);
            touched.cluster(&name);
        }
    }

    /// Who is behind services whose connections stay with TCP.
    pub(super) fn unaccelerated_endpoints(&self) -> BTreeSet<IpAddr> {
        let clusters = self.unaccelerated.iter();
        let endpoints = clusters.filter_map(|cluster| match self.target(cluster) {
            Target::Here(_, endpoints) => Some(endpoints),
            Target::Missing | Target::Pending => None,
        });
        endpoints
            .flatten()
            .map(|endpoint| endpoint.address.ip())
            .collect()
    }

    fn move_asker(
        &mut self,
        cluster: &Arc<str>,
        from: Option<Arc<str>>,
        to: Option<Arc<str>>,
        touched: &mut Touched,
    ) {
        if from == to {
            return;
        }
        if let Some(name) = to {
            let askers = self.askers.entry(Arc::clone(&name)).or_default();
            if askers.is_empty() {
                touched.unsubscribe.retain(|n| **n != *name);
                touched.subscribe.push(name.to_string());
                self.endpoints
                    .insert(Arc::clone(&name), EndpointsState::Pending);
            }
            askers.insert(Arc::clone(cluster));
        }
        if let Some(name) = from
            && let Some(askers) = self.askers.get_mut(&name)
        {
            askers.remove(cluster);
            if askers.is_empty() {
                self.askers.remove(&name);
                self.endpoints.remove(&name);
                touched.subscribe.retain(|n| **n != *name);
                touched.unsubscribe.push(name.to_string());
            }
        }
    }

    /// Endpoints that no cluster asks for are passed over.
    pub(super) fn set_endpoints(
        &mut self,
        name: &str,
        state: EndpointsState,
        touched: &mut Touched,
    ) {
        let Some(held) = self.endpoints.get_mut(name) else {
            return;
        };
        let same = match (&*held, &state) {
            (EndpointsState::Here(a), EndpointsState::Here(b)) => a == b,
            (EndpointsState::Absent, EndpointsState::Absent) => true,
            _ => false,
        };
        if same {
            return;
        }
        *held = state;
        for cluster in self.askers.get(name).into_iter().flatten() {
            touched.cluster(cluster);
        }
    }

    /// Clusters that ask for these endpoints.
    pub(super) fn askers(&self, endpoints: &str) -> impl Iterator<Item = &Arc<str>> {
        self.askers.get(endpoints).into_iter().flatten()
    }

    pub(super) fn set_workload(&mut self, name: String, workload: Workload) -> Vec<IpAddr> {
        if self.workloads.get(&name) == Some(&workload) {
            return Vec::new();
        }
        let gone = self.remove_workload(&name);
        for address in &workload.addresses {
            self.workload_names
                .entry(*address)
                .or_default()
                .insert(name.clone());
        }
        self.workloads.insert(name, workload);
        gone
    }

    /// Returns its addresses.
    pub(super) fn remove_workload(&mut self, name: &str) -> Vec<IpAddr> {
        let Some(old) = self.workloads.remove(name) else {
            return Vec::new();
        };
        for address in &old.addresses {
            if let Some(names) = self.workload_names.get_mut(address) {
                names.remove(name);
                if names.is_empty() {
                    self.workload_names.remove(address);
                }
            }
        }
        old.addresses
    }

    pub(super) fn knows_address(&self, address: IpAddr) -> bool {
        self.workload_names.contains_key(&address)
    }

    /// Name of a workload with this address, the first if several share it.
    pub(super) fn workload_at(&self, address: IpAddr) -> Option<&str> {
        Some(self.workload_names.get(&address)?.first()?.as_str())
    }
}

fn eds_name(cluster: Option<&NodeCluster>) -> Option<Arc<str>> {
    match &cluster?.source {
        NodeEndpointSource::Eds(name) => Some(Arc::clone(name)),
        NodeEndpointSource::Static(_) => None,
    }
}
