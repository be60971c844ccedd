//! All EndpointSlices, by the service they belong to and by what they show.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::Model;
use crate::object::{EndpointSlice, ObjectName, SliceEndpoint};

type OfService = BTreeMap<Arc<str>, Arc<EndpointSlice>>;

/// How an endpoint names its pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shown {
    Pod(ObjectName),
    Address(IpAddr),
}

impl Shown {
    fn by(endpoint: &SliceEndpoint) -> Self {
        endpoint
            .pod
            .clone()
            .map_or(Self::Address(endpoint.address), Self::Pod)
    }
}

/// All slices.
#[derive(Debug, Default)]
pub(super) struct Slices {
    /// By service, then by the slice's own name.
    by_service: HashMap<ObjectName, OfService>,
    /// The service that a slice belongs to.
    owner: HashMap<ObjectName, ObjectName>,
    /// Slices by what they show; mostly one each.
    showing: HashMap<Shown, Vec<ObjectName>>,
}

impl Slices {
    pub(super) fn of(&self, service: &ObjectName) -> Option<&OfService> {
        self.by_service.get(service)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&ObjectName, &OfService)> {
        self.by_service.iter()
    }

    /// Services with slices that show the pod.
    pub(super) fn showing(&self, pod: &ObjectName, addresses: &[IpAddr]) -> Vec<ObjectName> {
        addresses
            .iter()
            .map(|address| Shown::Address(*address))
            .chain([Shown::Pod(pod.clone())])
            .filter_map(|key| self.showing.get(&key))
            .flatten()
            .filter_map(|slice| self.owner.get(slice))
            .cloned()
            .collect()
    }

    fn get(&self, name: &ObjectName) -> Option<&Arc<EndpointSlice>> {
        let service = self.owner.get(name)?;
        self.by_service.get(service)?.get(&name.name)
    }

    fn insert(&mut self, name: &ObjectName, service: &ObjectName, slice: Arc<EndpointSlice>) {
        for endpoint in &slice.endpoints {
            let slices = self.showing.entry(Shown::by(endpoint)).or_default();
            if slices.last() != Some(name) {
                slices.push(name.clone());
            }
        }
        self.owner.insert(name.clone(), service.clone());
        self.by_service
            .entry(service.clone())
            .or_default()
            .insert(Arc::clone(&name.name), slice);
    }

    fn remove(&mut self, name: &ObjectName) -> Option<ObjectName> {
        let service = self.owner.remove(name)?;
        let slices = self.by_service.get_mut(&service)?;
        let slice = slices.remove(&name.name)?;
        if slices.is_empty() {
            self.by_service.remove(&service);
        }
        for endpoint in &slice.endpoints {
            let key = Shown::by(endpoint);
            if let Some(slices) = self.showing.get_mut(&key) {
                slices.retain(|s| s != name);
                if slices.is_empty() {
                    self.showing.remove(&key);
                }
            }
        }
        Some(service)
    }
}

impl Model {
    pub(super) fn apply_slice(&mut self, name: &ObjectName, slice: Option<Arc<EndpointSlice>>) {
        if self.slices.get(name) == slice.as_ref() {
            return;
        }
        if let Some(service) = self.slices.remove(name) {
            self.dirty.endpoints.insert(service);
        }
        if let Some(slice) = slice {
            let service = ObjectName::new(Arc::clone(&name.namespace), Arc::clone(&slice.service));
            self.slices.insert(name, &service, slice);
            self.dirty.endpoints.insert(service);
        }
    }
}
