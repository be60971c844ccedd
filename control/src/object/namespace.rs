//! Namespaces.

use std::collections::BTreeMap;

/// A group of pods.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Namespace {
    /// `metadata.labels`, and `kubernetes.io/metadata.name`, which every namespace has.
    pub labels: BTreeMap<String, String>,
    /// `weft.io/mesh: disabled`: its pods stay out, but those that say otherwise.
    pub out_of_mesh: bool,
}

impl Namespace {
    /// A namespace of which nothing but its name is known.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::with_labels(name, BTreeMap::new())
    }

    /// A namespace with these labels besides the one that follows from its name.
    #[must_use]
    pub fn with_labels(name: &str, mut labels: BTreeMap<String, String>) -> Self {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        Self {
            labels,
            out_of_mesh: false,
        }
    }
}
