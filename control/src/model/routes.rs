//! Routes, and whose requests they are about.

use std::collections::{BTreeSet, HashMap};

use super::{Entry, Model};
use crate::object::{Kind, ObjectName, ObjectRef, Route, RuleAction};

/// All routes, by whom they attach to and by whom they send requests to.
#[derive(Debug, Default)]
pub(super) struct Routes {
    all: HashMap<ObjectRef, Entry<Route>>,
    parents: HashMap<ObjectName, BTreeSet<ObjectRef>>,
    backends: HashMap<ObjectName, BTreeSet<ObjectRef>>,
}

impl Routes {
    fn unlink(
        index: &mut HashMap<ObjectName, BTreeSet<ObjectRef>>,
        at: &ObjectName,
        route: &ObjectRef,
    ) {
        if let Some(set) = index.get_mut(at) {
            set.remove(route);
            if set.is_empty() {
                index.remove(at);
            }
        }
    }
}

fn parents(reference: &ObjectRef, route: &Route) -> BTreeSet<ObjectName> {
    let namespace = &reference.name.namespace;
    let name =
        |p: &crate::object::RouteParent| ObjectName::new(namespace.clone(), p.service.clone());
    route.parents.iter().map(name).collect()
}

fn backends(reference: &ObjectRef, route: &Route) -> BTreeSet<ObjectName> {
    let namespace = &reference.name.namespace;
    let mut names = BTreeSet::new();
    for rule in &route.rules {
        let RuleAction::Forward(forward) = &rule.action else {
            continue;
        };
        let targets = forward.backends.iter().filter_map(|b| b.target.as_ref());
        let mirrors = forward.mirrors.iter().map(|(target, _)| target);
        for target in targets.chain(mirrors) {
            names.insert(ObjectName::new(namespace.clone(), target.service.clone()));
        }
    }
    names
}

impl Model {
    pub(super) fn apply_route(&mut self, reference: &ObjectRef, route: Option<Entry<Route>>) {
        let old = match &route {
            Some(route) => self.routes.all.insert(reference.clone(), route.clone()),
            None => self.routes.all.remove(reference),
        };
        if old == route {
            return;
        }
        let specs = |entry: &Option<Entry<Route>>| entry.as_ref().map(|e| e.spec.clone());
        if let Some(old) = specs(&old) {
            for parent in parents(reference, &old) {
                Routes::unlink(&mut self.routes.parents, &parent, reference);
                self.dirty.services.insert(parent);
            }
            for backend in backends(reference, &old) {
                Routes::unlink(&mut self.routes.backends, &backend, reference);
                self.dirty.services.insert(backend);
            }
        }
        if let Some(new) = specs(&route) {
            for parent in parents(reference, &new) {
                let set = self.routes.parents.entry(parent.clone()).or_default();
                set.insert(reference.clone());
                self.dirty.services.insert(parent);
            }
            for backend in backends(reference, &new) {
                let set = self.routes.backends.entry(backend.clone()).or_default();
                set.insert(reference.clone());
                self.dirty.services.insert(backend);
            }
        }
    }

    /// Services whose routes send requests to `backend`: what they say about it may be different now.
    pub(super) fn routing_to(&self, backend: &ObjectName) -> BTreeSet<ObjectName> {
        let routes = self.routes.backends.get(backend).into_iter().flatten();
        routes
            .filter_map(|reference| Some(parents(reference, &self.routes.all.get(reference)?.spec)))
            .flatten()
            .collect()
    }

    /// The routes that are attached to a service, the one that comes first first.
    #[must_use]
    pub fn routes(&self, service: &ObjectName) -> Vec<(&ObjectRef, &Entry<Route>)> {
        let names = self.routes.parents.get(service);
        let mut list: Vec<_> = names
            .into_iter()
            .flatten()
            .filter_map(|reference| Some((reference, self.routes.all.get(reference)?)))
            .collect();
        list.sort_by_key(|(reference, entry)| {
            (
                entry.created,
                &reference.name,
                reference.kind == Kind::GRPCRoute,
            )
        });
        list
    }

    /// Whether routes send requests to the service, or are attached to it.
    #[must_use]
    pub fn is_routed_to(&self, service: &ObjectName) -> bool {
        self.routes.backends.contains_key(service)
    }
}
