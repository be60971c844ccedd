//! Which nodes' tunnels have to be looked at again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weft_proto::resource::ResourceType;

use super::Settings;
use crate::ads::Batch;
use crate::model::Model;
use crate::object::{ObjectName, Pod};
use crate::translate;

type Names = BTreeSet<(ResourceType, String)>;

/// What has been published for each node.
#[derive(Debug, Default)]
pub(super) struct Tunnels {
    /// Where each pod was.
    nodes: HashMap<ObjectName, String>,
    published: BTreeMap<String, Names>,
    dirty: BTreeSet<String>,
}

impl Tunnels {
    /// A pod is new, changed or gone.
    pub(super) fn touch(&mut self, name: &ObjectName, pod: Option<&Pod>) {
        let before = match pod {
            Some(pod) => self.nodes.insert(name.clone(), pod.node.clone()),
            None => self.nodes.remove(name),
        };
        self.dirty.extend(before);
        self.dirty.extend(pod.map(|pod| pod.node.clone()));
    }

    /// Adds what has changed since the last call.
    pub(super) fn publish(&mut self, model: &Model, settings: &Settings, batch: &mut Batch) {
        for node in std::mem::take(&mut self.dirty) {
            let mut names = Names::new();
            for resource in translate::tunnels(model, &node, settings) {
                names.insert((resource.resource_type(), resource.name()));
                batch.upsert(resource);
            }
            let before = match names.is_empty() {
                true => self.published.remove(&node),
                false => self.published.insert(node, names.clone()),
            };
            for (kind, gone) in before.iter().flatten().filter(|n| !names.contains(n)) {
                batch.remove(*kind, gone.clone());
            }
        }
    }
}
