//! `LabelSelector` of Kubernetes meta/v1.

use std::collections::BTreeMap;

use weft_proto::model::policy::{LabelCondition, LabelRequirement};

/// Requirements that have to hold all; without any, it selects everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LabelSelector(
    /// `matchLabels` and `matchExpressions`.
    pub Vec<LabelRequirement>,
);

impl LabelSelector {
    /// Whether something with these labels is selected.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.is {
                LabelCondition::In(values) => value.is_some_and(|v| values.contains(v)),
                LabelCondition::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
                LabelCondition::Exists => value.is_some(),
                LabelCondition::DoesNotExist => value.is_none(),
            }
        })
    }

    /// Whether it selects everything, whatever its labels.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.0.is_empty()
    }
}
