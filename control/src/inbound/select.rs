//! Whom a policy selects.

use weft_proto::model::Workload;
use weft_proto::model::policy::{LabelCondition, Selector};

pub(super) fn selects(selector: &Selector, pod: &Workload) -> bool {
    let namespaces = selector.namespaces.as_ref();
    namespaces.is_none_or(|all| all.contains(&pod.namespace))
        && selector.labels.iter().all(|requirement| {
            let value = pod.labels.get(&requirement.key);
            match &requirement.is {
                LabelCondition::In(values) => value.is_some_and(|v| values.contains(v)),
                LabelCondition::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
                LabelCondition::Exists => value.is_some(),
                LabelCondition::DoesNotExist => value.is_none(),
            }
        })
}
