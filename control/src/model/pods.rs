//! All pods, by name, node, address and label; and what follows from a change of one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::Model;
use super::labels::{LabelIndex, selects};
use crate::object::{ObjectName, Pod, SliceEndpoint};

/// All pods.
#[derive(Debug, Default)]
pub struct Pods {
    by_name: HashMap<ObjectName, Arc<Pod>>,
    by_node: HashMap<String, BTreeSet<ObjectName>>,
    /// Mostly one; more while an address passes from one pod to another.
    by_address: HashMap<IpAddr, Vec<ObjectName>>,
    by_label: LabelIndex,
}

impl Pods {
    pub(super) fn get(&self, name: &ObjectName) -> Option<&Arc<Pod>> {
        self.by_name.get(name)
    }

    /// The pod behind a slice's endpoint: by `targetRef`, or else by address (of pods that share their node's, none is meant).
    #[must_use]
    pub fn of_endpoint(&self, endpoint: &SliceEndpoint) -> Option<&Pod> {
        let name = match &endpoint.pod {
            Some(name) => name,
            None => self.by_address.get(&endpoint.address)?.iter().min()?,
        };
        self.get(name).map(AsRef::as_ref)
    }

    /// Those of a namespace; `None`: all.
    pub(crate) fn names(&self, namespace: Option<&str>) -> impl Iterator<Item = &ObjectName> {
        let names = self.by_name.keys();
        names.filter(move |name| namespace.is_none_or(|n| *name.namespace == *n))
    }

    /// Those of a node.
    pub(crate) fn on_node(&self, node: &str) -> impl Iterator<Item = (&ObjectName, &Pod)> {
        let names = self.by_node.get(node);
        names
            .into_iter()
            .flatten()
            .filter_map(|name| Some((name, self.get(name)?.as_ref())))
    }

    fn insert(&mut self, name: &ObjectName, pod: &Arc<Pod>) {
        self.by_name.insert(name.clone(), Arc::clone(pod));
        self.by_node
            .entry(pod.node.clone())
            .or_default()
            .insert(name.clone());
        for address in own_addresses(pod) {
            self.by_address
                .entry(*address)
                .or_default()
                .push(name.clone());
        }
        self.by_label.insert(name, &pod.labels);
    }

    fn remove(&mut self, name: &ObjectName) -> Option<Arc<Pod>> {
        let pod = self.by_name.remove(name)?;
        if let Some(names) = self.by_node.get_mut(&pod.node) {
            names.remove(name);
            if names.is_empty() {
                self.by_node.remove(&pod.node);
            }
        }
        for address in own_addresses(&pod) {
            if let Some(names) = self.by_address.get_mut(address) {
                names.retain(|n| n != name);
                if names.is_empty() {
                    self.by_address.remove(address);
                }
            }
        }
        self.by_label.remove(name, &pod.labels);
        Some(pod)
    }
}

/// What an endpoint of a slice takes from its pod.
fn shown_by_slices(pod: &Pod) -> (&str, u32, &[IpAddr], bool, bool) {
    (
        &pod.node,
        pod.weight,
        &pod.addresses,
        pod.host_network,
        pod.finished,
    )
}

/// Addresses that name the pod alone.
fn own_addresses(pod: &Pod) -> impl Iterator<Item = &IpAddr> {
    let own = !pod.host_network && !pod.finished;
    pod.addresses.iter().filter(move |_| own)
}

impl Model {
    pub(super) fn apply_pod(&mut self, name: &ObjectName, pod: Option<Arc<Pod>>) {
        if self.pods.get(name) == pod.as_ref() {
            return;
        }
        let old = self.pods.remove(name);
        if let Some(pod) = &pod {
            self.pods.insert(name, pod);
        }
        self.dirty.pods.insert(name.clone());
        if old.is_none() {
            self.enter_namespace(&name.namespace);
        } else if pod.is_none() {
            self.leave_namespace(&name.namespace);
        }
        for pod in [&old, &pod].into_iter().flatten() {
            let services: Vec<_> = self.selecting(name, pod).collect();
            self.dirty.endpoints.extend(services);
        }
        if old.as_deref().map(shown_by_slices) != pod.as_deref().map(shown_by_slices) {
            for pod in [&old, &pod].into_iter().flatten() {
                let services = self.slices.showing(name, &pod.addresses);
                self.dirty.endpoints.extend(services);
            }
        }
    }

    /// Services whose selector picks the pod, and which have no slices that would say it better.
    pub(super) fn selecting<'a>(
        &'a self,
        name: &'a ObjectName,
        pod: &'a Pod,
    ) -> impl Iterator<Item = ObjectName> + 'a {
        self.selectors
            .under_any(&name.namespace, &pod.labels)
            .filter(|service| {
                self.slices.of(service).is_none()
                    && self
                        .services
                        .get(*service)
                        .is_some_and(|s| selects(&s.spec.selector, &pod.labels))
            })
            .cloned()
    }

    /// The pods that a service's selector picks, in the order of their names.
    pub fn selected_pods<'a>(
        &'a self,
        service: &'a ObjectName,
        selector: &'a BTreeMap<String, String>,
    ) -> impl Iterator<Item = (&'a ObjectName, &'a Pod)> {
        self.pods
            .by_label
            .under_rarest(&service.namespace, selector)
            .into_iter()
            .flatten()
            .filter_map(|name| Some((name, self.pods.get(name)?.as_ref())))
            .filter(|(_, pod)| selects(selector, &pod.labels))
    }
}
