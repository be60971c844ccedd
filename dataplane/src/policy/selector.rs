//! Whom a policy selects.

use weft_proto::model::Workload;
use weft_proto::model::policy::{LabelCondition, LabelRequirement, Selector};

/// Whether `selector` selects this pod.
pub(super) fn selects(selector: &Selector, pod: &Workload) -> bool {
    let namespaces = selector.namespaces.as_ref();
    namespaces.is_none_or(|names| names.contains(&pod.namespace))
        && selector.labels.iter().all(|label| holds(label, pod))
}

fn holds(requirement: &LabelRequirement, pod: &Workload) -> bool {
    let value = pod.labels.get(&requirement.key);
    match &requirement.is {
        LabelCondition::In(values) => value.is_some_and(|value| values.contains(value)),
        LabelCondition::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
        LabelCondition::Exists => value.is_some(),
        LabelCondition::DoesNotExist => value.is_none(),
    }
}
