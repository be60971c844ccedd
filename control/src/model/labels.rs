//! Finding selectors by labels and pods by selectors without looking at all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::object::ObjectName;

type Labels = BTreeMap<String, String>;

/// One label in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    namespace: Arc<str>,
    label: String,
    value: String,
}

/// Names by the labels that they stand under.
#[derive(Debug, Default)]
pub(super) struct LabelIndex(HashMap<Key, BTreeSet<ObjectName>>);

impl LabelIndex {
    fn key(namespace: &Arc<str>, (label, value): (&String, &String)) -> Key {
        Key {
            namespace: Arc::clone(namespace),
            label: label.clone(),
            value: value.clone(),
        }
    }

    pub(super) fn insert<'a>(
        &mut self,
        name: &ObjectName,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) {
        for label in labels {
            let key = Self::key(&name.namespace, label);
            self.0.entry(key).or_default().insert(name.clone());
        }
    }

    pub(super) fn remove<'a>(
        &mut self,
        name: &ObjectName,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) {
        for label in labels {
            let key = Self::key(&name.namespace, label);
            if let Some(names) = self.0.get_mut(&key) {
                names.remove(name);
                if names.is_empty() {
                    self.0.remove(&key);
                }
            }
        }
    }

    /// All names under any of the labels.
    pub(super) fn under_any<'a>(
        &'a self,
        namespace: &'a Arc<str>,
        labels: &'a Labels,
    ) -> impl Iterator<Item = &'a ObjectName> {
        labels
            .iter()
            .filter_map(|label| self.0.get(&Self::key(namespace, label)))
            .flatten()
    }

    /// The names under that one of the labels which has the fewest. Who has all labels is among them.
    pub(super) fn under_rarest(
        &self,
        namespace: &Arc<str>,
        labels: &Labels,
    ) -> Option<&BTreeSet<ObjectName>> {
        let mut rarest: Option<&BTreeSet<ObjectName>> = None;
        for label in labels {
            let names = self.0.get(&Self::key(namespace, label))?;
            if rarest.is_none_or(|r| names.len() < r.len()) {
                rarest = Some(names);
            }
        }
        rarest
    }
}

/// Whether `labels` has all that `selector` asks for. An empty selector selects nothing here, as in a Service.
pub(super) fn selects(selector: &Labels, labels: &Labels) -> bool {
    !selector.is_empty() && selector.iter().all(|(k, v)| labels.get(k) == Some(v))
}
