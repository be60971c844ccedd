//! What a node's Envoy needs for mTLS with other nodes: it grows with the identities of the node's pods, not with the mesh.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use weft_proto::model::{
    Resource, TUNNEL_PREFIX, TunnelCluster, TunnelListener, TunnelSide, Workload,
};

use crate::engine::Settings;
use crate::model::Model;

/// Everything for the Envoy of this node; nothing while none of its pods takes tunnels.
#[must_use]
pub fn tunnels(model: &Model, node: &str, settings: &Settings) -> Vec<Resource> {
    if !settings.tunnels {
        return Vec::new();
    }
    let names = model.pods().on_node(node).map(|(name, _)| name);
    let pods: Vec<Workload> = names
        .filter_map(|name| super::pod(model, name, settings))
        .filter(|pod| pod.mtls.tunnel)
        .collect();
    let identities: BTreeSet<&String> = pods.iter().map(|pod| &pod.spiffe_id).collect();
    let clusters: BTreeMap<String, String> = identities
        .iter()
        .map(|identity| ((*identity).clone(), resource_name(identity, node)))
        .collect();
    let ways_out = clusters.iter().map(|(identity, name)| {
        Resource::TunnelCluster(TunnelCluster {
            name: name.clone(),
            node: node.to_owned(),
            identity: identity.clone(),
            trust_domain: settings.trust_domain.clone(),
        })
    });
    let mut all: Vec<Resource> = ways_out.collect();
    for ipv6 in [false, true] {
        let addresses = by_address(&pods, ipv6);
        if addresses.is_empty() {
            continue;
        }
        let family = if ipv6 { '6' } else { '4' };
        for (side, word) in [(TunnelSide::Entry, "in"), (TunnelSide::Exit, "out")] {
            all.push(Resource::TunnelListener(TunnelListener {
                name: resource_name(&format!("{word}{family}"), node),
                node: node.to_owned(),
                side,
                ipv6,
                pods: addresses.clone(),
                clusters: match side {
                    TunnelSide::Entry => clusters.clone(),
                    TunnelSide::Exit => BTreeMap::new(),
                },
                trust_domain: settings.trust_domain.clone(),
            }));
        }
    }
    all
}

fn resource_name(what: &str, node: &str) -> String {
    format!("{TUNNEL_PREFIX}{what}@{node}")
}

/// While an address passes from one pod to another, it is the first's by name.
fn by_address(pods: &[Workload], ipv6: bool) -> BTreeMap<IpAddr, String> {
    let mut sorted: Vec<&Workload> = pods.iter().collect();
    sorted.sort_by(|a, b| b.name.cmp(&a.name));
    sorted
        .into_iter()
        .flat_map(|pod| {
            pod.addresses
                .iter()
                .map(|address| (*address, &pod.spiffe_id))
        })
        .filter(|(address, _)| address.is_ipv6() == ipv6)
        .map(|(address, identity)| (address, identity.clone()))
        .collect()
}
