//! The cluster as it is now: all objects, indexed so that a change finds what depends on it without a search.

mod access;
mod claims;
mod dirty;
mod labels;
mod mtls;
mod namespaces;
mod node_ports;
mod pods;
mod routes;
mod services;
mod slices;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub use claims::{Claim, Claimant};
pub use dirty::Dirty;
pub use node_ports::NodePort;
pub use pods::Pods;

use self::access::Access;
use self::claims::Claims;
use self::labels::LabelIndex;
use self::mtls::PeerAuthentications;
use self::namespaces::Namespaces;
use self::node_ports::NodePorts;
use self::routes::Routes;
use self::slices::Slices;
use crate::object::{
    EndpointSlice, Kind, Node, Object, ObjectName, ObjectRef, Pod, Service, Spec, TrafficPolicy,
};
use crate::read::MESH;
use crate::translate::TUNNEL;

/// An object with what is said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// File and line.
    pub origin: Arc<str>,
    /// Unix seconds.
    pub created: Option<i64>,
    /// The object.
    pub spec: Arc<T>,
}

/// All objects.
#[derive(Debug, Default)]
pub struct Model {
    services: HashMap<ObjectName, Entry<Service>>,
    slices: Slices,
    pods: Pods,
    nodes: HashMap<Arc<str>, Arc<Node>>,
    policies: HashMap<ObjectName, Entry<TrafficPolicy>>,
    /// Policies by the service that they target.
    targets: HashMap<ObjectName, BTreeSet<ObjectName>>,
    routes: Routes,
    claims: Claims,
    node_ports: NodePorts,
    namespaces: Namespaces,
    access: Access,
    peer_authentications: PeerAuthentications,
    selectors: LabelIndex,
    dirty: Dirty,
}

impl Model {
    /// Takes a new or changed object.
    pub fn apply(&mut self, object: Object) {
        let kind = object.reference().kind;
        let Object {
            name,
            origin,
            created,
            spec,
        } = object;
        match spec {
            Spec::Namespace(namespace) => self.apply_namespace(&name.name, Some(namespace)),
            Spec::Node(node) => self.apply_node(name.name, Some(node)),
            Spec::Pod(pod) => self.apply_pod(&name, Some(pod)),
            Spec::EndpointSlice(slice) => self.apply_slice(&name, Some(slice)),
            Spec::Service(spec) => self.apply_service(
                &name,
                Some(Entry {
                    origin,
                    created,
                    spec,
                }),
            ),
            Spec::TrafficPolicy(spec) => self.apply_policy(
                &name,
                Some(Entry {
                    origin,
                    created,
                    spec,
                }),
            ),
            Spec::HttpRoute(spec) | Spec::GrpcRoute(spec) => {
                let reference = ObjectRef { kind, name };
                self.apply_route(
                    &reference,
                    Some(Entry {
                        origin,
                        created,
                        spec,
                    }),
                );
            }
            Spec::Access(policy) => {
                self.apply_access(ObjectRef { kind, name }, Some(policy));
            }
            Spec::PeerAuthentication(spec) => self.apply_peer_authentication(
                &name,
                Some(Entry {
                    origin,
                    created,
                    spec,
                }),
            ),
        }
    }

    /// Forgets an object.
    pub fn delete(&mut self, reference: &ObjectRef) {
        let name = &reference.name;
        match reference.kind {
            Kind::Namespace => self.apply_namespace(&name.name, None),
            Kind::Node => self.apply_node(Arc::clone(&name.name), None),
            Kind::Pod => self.apply_pod(name, None),
            Kind::EndpointSlice => self.apply_slice(name, None),
            Kind::Service => self.apply_service(name, None),
            Kind::TrafficPolicy => self.apply_policy(name, None),
            Kind::HTTPRoute | Kind::GRPCRoute => self.apply_route(reference, None),
            Kind::PeerAuthentication => self.apply_peer_authentication(name, None),
            Kind::NetworkPolicy | Kind::ClusterNetworkPolicy | Kind::AuthorizationPolicy => {
                self.apply_access(reference.clone(), None);
            }
        }
    }

    /// What has to be computed again since the last call.
    pub fn take_dirty(&mut self) -> Dirty {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.spread_zones(&mut dirty);
        // Whoever is computed in full needs no second look at its endpoints.
        dirty.endpoints.retain(|s| !dirty.services.contains(s));
        dirty
    }

    /// The service of this name.
    #[must_use]
    pub fn service(&self, name: &ObjectName) -> Option<&Entry<Service>> {
        self.services.get(name)
    }

    /// The slices of a service, in the order of their names; `None` when it has none.
    #[must_use]
    pub fn slices(
        &self,
        service: &ObjectName,
    ) -> Option<impl Iterator<Item = &EndpointSlice> + use<'_>> {
        self.slices
            .of(service)
            .map(|slices| slices.values().map(AsRef::as_ref))
    }

    /// A pod by name.
    #[must_use]
    pub fn pod(&self, name: &ObjectName) -> Option<&Pod> {
        self.pods.get(name).map(AsRef::as_ref)
    }

    /// All pods and nodes: pods, their zones, their indexes.
    #[must_use]
    pub const fn pods(&self) -> &Pods {
        &self.pods
    }

    /// A node by name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name).map(AsRef::as_ref)
    }

    /// The zone of a node; empty when unknown.
    #[must_use]
    pub fn zone(&self, node: &str) -> &str {
        self.node(node).map_or("", |n| &n.zone)
    }

    /// The policies that target a service, the one that counts first.
    #[must_use]
    pub fn policies(&self, service: &ObjectName) -> Vec<(&ObjectName, &Entry<TrafficPolicy>)> {
        let names = self.targets.get(service);
        let mut list: Vec<_> = names
            .into_iter()
            .flatten()
            .filter_map(|name| Some((name, self.policies.get(name)?)))
            .collect();
        list.sort_by_key(|(name, entry)| (entry.created, *name));
        list
    }

    /// Who has an address, port and protocol: the one that counts first.
    #[must_use]
    pub fn claimants(&self, claim: &Claim) -> Option<&BTreeSet<Claimant>> {
        self.claims.get(claim)
    }

    fn apply_node(&mut self, name: Arc<str>, node: Option<Arc<Node>>) {
        let old = match &node {
            Some(node) => self.nodes.insert(Arc::clone(&name), Arc::clone(node)),
            None => self.nodes.remove(&name),
        };
        if old == node {
            return;
        }
        let zone = |n: &Option<Arc<Node>>| n.as_ref().map(|n| n.zone.clone()).unwrap_or_default();
        let told = |n: &Option<Arc<Node>>| {
            let labels = n.as_ref().map(|n| &n.labels);
            [TUNNEL, MESH].map(|label| labels?.get(label).cloned())
        };
        if told(&old) != told(&node) {
            let pods = self.pods.on_node(&name).map(|(pod, _)| pod.clone());
            self.dirty.pods.extend(pods);
        }
        let addresses = |n: &Option<Arc<Node>>| n.as_ref().map(|n| n.addresses.clone());
        if addresses(&old) != addresses(&node) {
            let services = self.node_ports.services().cloned();
            self.dirty.services.extend(services);
        }
        if zone(&old) != zone(&node) {
            self.dirty.zones.insert(Arc::clone(&name));
        }
        self.dirty.nodes.insert(name);
    }

    fn apply_policy(&mut self, name: &ObjectName, policy: Option<Entry<TrafficPolicy>>) {
        let old = match &policy {
            Some(policy) => self.policies.insert(name.clone(), policy.clone()),
            None => self.policies.remove(name),
        };
        if old == policy {
            return;
        }
        let target = |t: &Arc<str>| ObjectName::new(Arc::clone(&name.namespace), Arc::clone(t));
        for service in old.iter().flat_map(|p| &p.spec.targets).map(target) {
            if let Some(set) = self.targets.get_mut(&service) {
                set.remove(name);
                if set.is_empty() {
                    self.targets.remove(&service);
                }
            }
            self.dirty.services.insert(service);
        }
        for service in policy.iter().flat_map(|p| &p.spec.targets).map(target) {
            self.targets
                .entry(service.clone())
                .or_default()
                .insert(name.clone());
            self.dirty.services.insert(service);
        }
    }
}
