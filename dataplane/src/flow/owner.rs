//! Which Deployment, StatefulSet, DaemonSet or Job a pod belongs to, as far as the labels say that its controller gave it.

use weft_proto::model::Workload;

/// Labels that name the owner themselves.
const JOB_NAMES: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
const REPLICA_SET_HASH: &str = "pod-template-hash";
const STATEFUL_SET_POD: &str = "statefulset.kubernetes.io/pod-name";
const REVISION_HASH: &str = "controller-revision-hash";

/// Name of what runs this pod; its own name when nothing else is known. `pod` is the pod's name without its namespace.
pub(super) fn owner(workload: &Workload, pod: &str) -> String {
    let label = |key: &str| workload.labels.get(key);
    if let Some(job) = JOB_NAMES.iter().find_map(|key| label(key)) {
        return job.clone();
    }
    let owner = if let Some(hash) = label(REPLICA_SET_HASH) {
        before_last_dash(pod).and_then(|set| set.strip_suffix(hash)?.strip_suffix('-'))
    } else if label(STATEFUL_SET_POD).is_some() || label(REVISION_HASH).is_some() {
        before_last_dash(pod)
    } else {
        None
    };
    owner.unwrap_or(pod).to_owned()
}

fn before_last_dash(name: &str) -> Option<&str> {
    name.rsplit_once('-').map(|(before, _)| before)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weft_proto::model::WorkloadKind;

    use super::*;

    fn owner_of(pod: &str, labels: &[(&str, &str)]) -> String {
        let labels: BTreeMap<String, String> = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let workload = Workload {
            name: format!("pod/shop/{pod}"),
            kind: WorkloadKind::Pod,
            addresses: Vec::new(),
            node: String::new(),
            zone: String::new(),
            namespace: "shop".into(),
            service_account: String::new(),
            labels,
            spiffe_id: String::new(),
            host_network: false,
            unaccelerated: false,
            out_of_mesh: false,
            mtls: Default::default(),
            ports: Vec::new(),
        };
        owner(&workload, pod)
    }

    #[test]
    fn controllers_leave_their_mark() {
        let deployment = [("pod-template-hash", "7d9c5b8f6")];
        assert_eq!(owner_of("web-7d9c5b8f6-x2x7k", &deployment), "web");
        assert_eq!(owner_of("a-b-7d9c5b8f6-x2x7k", &deployment), "a-b");
        assert_eq!(owner_of("other-name", &deployment), "other-name");
        let set = [("statefulset.kubernetes.io/pod-name", "db-0")];
        assert_eq!(owner_of("db-0", &set), "db");
        assert_eq!(
            owner_of("agent-4kx2p", &[("controller-revision-hash", "5")]),
            "agent"
        );
        assert_eq!(
            owner_of("load-9-abcde", &[("job-name", "load-9")]),
            "load-9"
        );
        assert_eq!(owner_of("lone", &[]), "lone");
    }
}
