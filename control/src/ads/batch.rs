//! Changes on their way into a store.

use std::collections::{HashMap, HashSet};

use weft_proto::model::{Layer, Resource};
use weft_proto::resource::ResourceType;

use crate::translate::envoy;

/// Changes that take effect together. What is said last about a name counts.
#[derive(Debug, Default)]
pub struct Batch(pub(super) HashMap<(ResourceType, String), Option<Resource>>);

impl Batch {
    /// Adds or replaces a resource.
    pub fn upsert(&mut self, resource: Resource) {
        let key = (resource.resource_type(), resource.name());
        self.0.insert(key, Some(resource));
    }

    /// Removes a resource.
    pub fn remove(&mut self, resource_type: ResourceType, name: String) {
        self.0.insert((resource_type, name), None);
    }

    /// How many changes there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds all of `other`'s changes.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The changes of one type, by name; `None`: removed.
    pub(crate) fn of(
        &self,
        wanted: ResourceType,
    ) -> impl Iterator<Item = (&str, Option<&Resource>)> {
        let changes = self.0.iter().filter(move |((of, _), _)| *of == wanted);
        changes.map(|((_, name), resource)| (name.as_str(), resource.as_ref()))
    }

    /// What Envoys take of these changes: service ports of layer 7, their routes, and `clusters`, which holds the names of those that
    /// requests are sent to. Routes are for nobody else.
    pub(crate) fn for_envoys(&mut self, clusters: &mut HashSet<String>) -> Self {
        for ((resource_type, name), resource) in &self.0 {
            if *resource_type == ResourceType::Cluster {
                match resource {
                    Some(Resource::Cluster(c)) if c.http => clusters.insert(name.clone()),
                    _ => clusters.remove(name),
                };
            }
        }
        let mut theirs = Self::default();
        for ((resource_type, name), resource) in &self.0 {
            let wanted = match resource {
                Some(Resource::Listener(listener)) => listener.layer == Layer::Seven,
                Some(Resource::Cluster(_) | Resource::Endpoints(_)) => clusters.contains(name),
                Some(Resource::Routes(_)) => true,
                Some(_) => continue,
                None => false,
            };
            let resources = match resource {
                Some(resource) if wanted => envoy::split(resource),
                _ => [None, None],
            };
            for (name, resource) in envoy::names(name).into_iter().zip(resources) {
                theirs.0.insert((*resource_type, name), resource);
            }
        }
        self.0.retain(|(resource_type, _), resource| {
            let is_client_s = || matches!(resource, Some(Resource::ClientRoutes(_)) | None);
            resource_type.is_for_agents() || is_client_s()
        });
        theirs
    }
}
