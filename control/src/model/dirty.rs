//! What a change leaves to be computed again.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::Model;
use crate::object::{ObjectName, ObjectRef};

/// Names whose resources may differ from what was computed last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dirty {
    /// Services of which everything may differ; also names of services that are gone, or not there yet.
    pub services: BTreeSet<ObjectName>,
    /// Services of which only the endpoints may differ.
    pub endpoints: BTreeSet<ObjectName>,
    /// Pods of which the workload may differ.
    pub pods: BTreeSet<ObjectName>,
    /// Nodes of which the workload may differ.
    pub nodes: BTreeSet<Arc<str>>,
    /// NetworkPolicies and the like of which the resources may differ; also those that are gone.
    pub access: BTreeSet<ObjectRef>,
    /// PeerAuthentications that have changed or are gone: the workloads that they select may differ.
    pub mtls: BTreeSet<ObjectName>,
    /// Nodes that moved to another zone.
    pub(super) zones: HashSet<Arc<str>>,
}

impl Dirty {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
            && self.endpoints.is_empty()
            && self.pods.is_empty()
            && self.nodes.is_empty()
            && self.access.is_empty()
            && self.mtls.is_empty()
            && self.zones.is_empty()
    }
}

impl Model {
    /// A node's zone shows in its pods and in every endpoint on it. Zones change rarely, so that one pass over all slices for
    /// all changed nodes together is cheaper than an index which every endpoint change would have to keep.
    pub(super) fn spread_zones(&self, dirty: &mut Dirty) {
        if dirty.zones.is_empty() {
            return;
        }
        let zones = std::mem::take(&mut dirty.zones);
        for node in &zones {
            for (name, pod) in self.pods.on_node(node) {
                dirty.pods.insert(name.clone());
                dirty.endpoints.extend(self.selecting(name, pod));
            }
        }
        for (service, slices) in self.slices.all() {
            let touched = slices.values().flat_map(|s| &s.endpoints).any(|endpoint| {
                zones.contains(endpoint.node.as_str())
                    || self
                        .pods
                        .of_endpoint(endpoint)
                        .is_some_and(|pod| zones.contains(pod.node.as_str()))
            });
            if touched && self.services.contains_key(service) {
                dirty.endpoints.insert(service.clone());
            }
        }
    }
}
