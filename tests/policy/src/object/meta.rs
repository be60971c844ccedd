//! `k8s.io/apimachinery` meta/v1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// `metadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Empty for objects of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Unique for the kind and namespace.
    pub name: String,
    /// What selectors look at.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Not selected by.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub annotations: Labels,
}

/// `LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Each is `In` with one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<Labels>,
    /// All have to hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<Requirement>>,
}

/// `LabelSelectorRequirement`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// Relation of the label to `values`.
    pub operator: Operator,
    /// Not empty for `In` and `NotIn`; empty or absent for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

/// `LabelSelectorOperator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// There, with one of the values.
    In,
    /// Not there, or with none of the values.
    NotIn,
    /// There.
    Exists,
    /// Not there.
    DoesNotExist,
}
