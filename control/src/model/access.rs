//! Objects that say who may talk to whom.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::Model;
use crate::object::{AccessPolicy, LabelSelector, Namespace, ObjectRef};

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Access {
    all: HashMap<ObjectRef, Arc<AccessPolicy>>,
    /// Those that select namespaces by labels.
    by_labels: BTreeSet<ObjectRef>,
}

impl Model {
    /// A NetworkPolicy or the like.
    #[must_use]
    pub fn access(&self, reference: &ObjectRef) -> Option<&AccessPolicy> {
        self.access.all.get(reference).map(AsRef::as_ref)
    }

    pub(super) fn apply_access(&mut self, reference: ObjectRef, policy: Option<Arc<AccessPolicy>>) {
        let old = match &policy {
            Some(policy) => {
                let policy = Arc::clone(policy);
                self.access.all.insert(reference.clone(), policy)
            }
            None => self.access.all.remove(&reference),
        };
        if old == policy {
            return;
        }
        let selects = |p: &AccessPolicy| p.namespace_selectors().iter().any(|s| needs_labels(s));
        if policy.is_some_and(|p| selects(&p)) {
            self.access.by_labels.insert(reference.clone());
        } else {
            self.access.by_labels.remove(&reference);
        }
        self.dirty.access.insert(reference);
    }

    /// Policies that select the namespace now and did not before, or the other way round, mean something else.
    pub(super) fn namespace_changed(
        &mut self,
        before: Option<&Namespace>,
        after: Option<&Namespace>,
    ) {
        let selected = |selector: &LabelSelector, namespace: Option<&Namespace>| {
            namespace.is_some_and(|n| selector.selects(&n.labels))
        };
        for reference in &self.access.by_labels {
            let Some(policy) = self.access.all.get(reference) else {
                continue;
            };
            let changed = policy
                .namespace_selectors()
                .into_iter()
                .filter(|s| needs_labels(s))
                .any(|s| selected(s, before) != selected(s, after));
            if changed {
                self.dirty.access.insert(reference.clone());
            }
        }
    }
}

/// One that selects all namespaces selects those to come as well.
const fn needs_labels(selector: &LabelSelector) -> bool {
    !selector.is_everything()
}
