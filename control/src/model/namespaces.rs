//! Namespaces and their labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Model;
use crate::object::{LabelSelector, Namespace, ObjectName, Pod};

/// A namespace exists when it is declared, and also when a pod stands in it: a folder need not declare them.
#[derive(Debug, Default)]
pub(super) struct Namespaces(BTreeMap<Arc<str>, State>);

#[derive(Debug, Default)]
struct State {
    declared: Option<Arc<Namespace>>,
    pods: usize,
}

impl Namespaces {
    /// What is known of a namespace; `None` when it does not exist.
    fn get(&self, name: &str) -> Option<Arc<Namespace>> {
        let state = self.0.get(name)?;
        Some(match &state.declared {
            Some(namespace) => Arc::clone(namespace),
            None => Arc::new(Namespace::named(name)),
        })
    }
}

impl Model {
    /// Names of the namespaces that a selector selects, in their order.
    pub fn selected_namespaces<'a>(
        &'a self,
        selector: &'a LabelSelector,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        self.namespaces.0.iter().filter_map(move |(name, state)| {
            let selected = match &state.declared {
                Some(namespace) => selector.selects(&namespace.labels),
                None => selector.selects(&Namespace::named(name).labels),
            };
            selected.then_some(name)
        })
    }

    /// Whether nothing of Weft is to be at a pod's interface: the pod's own word counts, else its namespace's.
    #[must_use]
    pub fn is_out_of_mesh(&self, name: &ObjectName, pod: &Pod) -> bool {
        let namespace = self.namespaces.0.get(&name.namespace);
        let declared = namespace.and_then(|state| state.declared.as_ref());
        let namespace = declared.is_some_and(|namespace| namespace.out_of_mesh);
        !pod.in_mesh.unwrap_or(!namespace)
    }

    pub(super) fn apply_namespace(&mut self, name: &Arc<str>, namespace: Option<Arc<Namespace>>) {
        self.change_namespace(name, |state| state.declared = namespace);
    }

    pub(super) fn enter_namespace(&mut self, name: &Arc<str>) {
        match self.namespaces.0.get_mut(name) {
            Some(state) => state.pods += 1,
            None => self.change_namespace(name, |state| state.pods = 1),
        }
    }

    pub(super) fn leave_namespace(&mut self, name: &Arc<str>) {
        match self.namespaces.0.get_mut(name) {
            Some(state) if state.pods > 1 => state.pods -= 1,
            _ => self.change_namespace(name, |state| state.pods = 0),
        }
    }

    fn change_namespace(&mut self, name: &Arc<str>, change: impl FnOnce(&mut State)) {
        let before = self.namespaces.get(name);
        let state = self.namespaces.0.entry(Arc::clone(name)).or_default();
        change(state);
        if state.declared.is_none() && state.pods == 0 {
            self.namespaces.0.remove(name);
        }
        let after = self.namespaces.get(name);
        if before != after {
            self.namespace_changed(before.as_deref(), after.as_deref());
            let is_out = |n: &Option<Arc<Namespace>>| n.as_ref().is_some_and(|n| n.out_of_mesh);
            if is_out(&before) != is_out(&after) {
                let pods = self.pods.names(Some(name)).cloned();
                self.dirty.pods.extend(pods);
            }
        }
    }
}
