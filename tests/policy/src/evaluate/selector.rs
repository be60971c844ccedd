//! Label selectors.
//!
//! <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors> and the documentation of
//! `LabelSelector` in meta/v1.

use crate::object::{Cluster, LabelSelector, Labels, NamespacedPod, Operator, Pod, Requirement};

/// "The result of matchLabels and matchExpressions are ANDed. An empty label selector matches all objects."
pub(super) fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
    selector.match_labels.iter().flatten().all(has)
        && selector
            .match_expressions
            .iter()
            .flatten()
            .all(|requirement| holds(requirement, labels))
}

/// `NotIn` and `DoesNotExist` also match objects without the key.
fn holds(requirement: &Requirement, labels: &Labels) -> bool {
    let value = labels.get(&requirement.key);
    let listed = || {
        let values = requirement.values.iter().flatten();
        value.is_some_and(|value| values.into_iter().any(|v| v == value))
    };
    match requirement.operator {
        Operator::In => listed(),
        Operator::NotIn => !listed(),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
    }
}

/// "Namespaces is used to select pods via namespace selectors": `ClusterNetworkPolicySubject` and its peers.
pub(super) fn is_in(selector: &LabelSelector, pod: &Pod, cluster: &Cluster) -> bool {
    matches(selector, &cluster.namespace_labels(&pod.metadata.namespace))
}

/// "Pods is used to select pods via namespace AND pod selectors": likewise.
pub(super) fn is_among(pods: &NamespacedPod, pod: &Pod, cluster: &Cluster) -> bool {
    is_in(&pods.namespace_selector, pod, cluster)
        && matches(&pods.pod_selector, &pod.metadata.labels)
}
