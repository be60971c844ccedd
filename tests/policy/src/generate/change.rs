//! One step in the life of a cluster.

use super::cluster::{is_local, pod};
use super::selector::labels;
use super::{MAX_LOCAL_PODS, Random, authorization_policy, cluster_network_policy, network_policy};
use crate::object::Cluster;

/// Something is added, removed, or becomes another.
pub fn change(random: &mut Random, cluster: &mut Cluster) {
    match random.number(0..=11) {
        0 | 1 => network_policy::add(random, cluster),
        2 => cluster_network_policy::add(random, cluster),
        3 => authorization_policy::add(random, cluster),
        4 => remove_one(random, &mut cluster.network_policies),
        5 => remove_one(random, &mut cluster.cluster_network_policies),
        6 => remove_one(random, &mut cluster.authorization_policies),
        7 => with_one(random, &mut cluster.namespaces, |r, n| {
            n.metadata.labels = labels(r)
        }),
        8 => with_one(random, &mut cluster.nodes, |r, n| {
            n.metadata.labels = labels(r)
        }),
        9 => with_one(random, &mut cluster.pods, |r, p| {
            p.metadata.labels = labels(r)
        }),
        10 => remove_one(random, &mut cluster.pods),
        _ => add_pod(random, cluster),
    }
}

fn remove_one<T>(random: &mut Random, all: &mut Vec<T>) {
    if !all.is_empty() {
        let index = random.number(0..=all.len() - 1);
        all.remove(index);
    }
}

fn with_one<T>(random: &mut Random, all: &mut [T], change: impl FnOnce(&mut Random, &mut T)) {
    if !all.is_empty() {
        let index = random.number(0..=all.len() - 1);
        change(random, &mut all[index]);
    }
}

/// Its name may be one that was taken before, its addresses as well.
fn add_pod(random: &mut Random, cluster: &mut Cluster) {
    let is_taken = |index: &usize| {
        let name = format!("pod-{index}");
        cluster.pods.iter().any(|p| p.metadata.name == name)
    };
    let Some(index) = (0..=cluster.pods.len()).find(|index| !is_taken(index)) else {
        return;
    };
    let pod = pod(random, cluster, index);
    let locals = cluster.pods.iter().filter(|p| is_local(p)).count();
    if locals < MAX_LOCAL_PODS || !is_local(&pod) {
        cluster.pods.push(pod);
    }
}
