//! Pods and policies of a site, as manifests.

use anyhow::Result;
use serde_json::{Value, json};
use weft_lab::{Manifests, Node, Pod, manifest};

use super::Crowd;
use crate::plan::PORT;

/// Writes everything that the site's agents read.
pub(super) fn write(to: &Manifests, nodes: &[Node], pods: &[Pod], crowd: Crowd) -> Result<()> {
    let nodes = nodes.iter().map(|node| node.manifest().yaml());
    let pods = pods.iter().map(|pod| pod.manifest().yaml());
    let all = [manifest::namespace("default")]
        .into_iter()
        .chain(nodes)
        .chain(pods);
    to.write("pods", &manifest::documents(all))?;
    let policies = (0..crowd.policies).map(|index| policy(crowd, index).to_string());
    to.write("policies", &manifest::documents(policies))?;
    Ok(())
}

/// Every policy lets the client reach the server's port, and a peer of its own reach a port of its
/// own. A single policy selects all pods; of many, each selects one, in turn, so that the pods that carry the load have as many
/// as the others.
fn policy(crowd: Crowd, index: u32) -> Value {
    let turn = index % (u32::from(crowd.pods) + 3);
    let selected = match turn {
        _ if crowd.policies == 1 => json!({}),
        0 => json!({"matchLabels": {"app": "client"}}),
        1 => json!({"matchLabels": {"app": "server"}}),
        2 => json!({"matchLabels": {"app": "far"}}),
        turn => json!({"matchLabels": {"app": format!("idle-{:03}", turn - 3)}}),
    };
    let client = json!({"podSelector": {"matchLabels": {"app": "client"}}});
    let servers = json!({"podSelector": {"matchExpressions": [
        {"key": "app", "operator": "In", "values": ["server", "far"]},
    ]}});
    let other =
        json!({"podSelector": {"matchLabels": {"app": format!("idle-{:03}", index % 118)}}});
    let tcp = |port: u32| json!([{"protocol": "TCP", "port": port}]);
    let own = 10_000 + index;
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": format!("p{index:04}"), "namespace": "default"},
        "spec": {
            "podSelector": selected,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [client], "ports": tcp(PORT.into())},
                {"from": [other], "ports": tcp(own)},
            ],
            "egress": [
                {"to": [servers], "ports": tcp(PORT.into())},
                {"to": [other], "ports": tcp(own)},
            ],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_and_servers_are_selected_in_every_crowd() {
        for crowd in super::super::CROWDS {
            let text: String = (0..crowd.policies)
                .map(|index| policy(crowd, index)["spec"]["podSelector"].to_string())
                .collect();
            let all = crowd.policies == 1;
            for app in ["client", "server", "far"] {
                assert!(all || text.contains(app), "{crowd:?}: {app}");
            }
        }
    }
}
