//! The wiring: which links, addresses and routes each namespace gets. All links are made inside the lab's
//! namespaces; the machine's own namespace never sees one.

use crate::Result;
use crate::addr::{self, DualStack, GATEWAY_V6};
use crate::netns::Netns;

/// A node's link to the fabric, inside the node.
pub(crate) const UPLINK: &str = "eth0";

/// Traffic that has nowhere to go stays in the lab.
const NO_WAY_OUT: &str = "route add blackhole 0.0.0.0/0\nroute add blackhole ::/0\n";

/// Makes the namespace that joins the nodes: one bridge, no addresses.
pub(crate) fn make_fabric(name: &str) -> Result<Netns> {
    let fabric = Netns::create(name)?;
    fabric.ip(&format!(
        "link add br0 type bridge\nlink set br0 up\n{NO_WAY_OUT}"
    ))?;
    Ok(fabric)
}

/// Makes the namespace of node `index` (from 1), joined to the fabric, with routes to the pods of nodes 1 to `index`.
pub(crate) fn make_node(name: &str, index: u8, fabric: &Netns) -> Result<Netns> {
    let node = Netns::create(name)?;
    node.sysctl(&[
        ("net/ipv4/ip_forward", "1"),
        ("net/ipv6/conf/all/forwarding", "1"),
    ])?;
    fabric.ip(&format!(
        "link add n{index} type veth peer name {UPLINK} netns {name}\nlink set n{index} master br0 up\n"
    ))?;
    let DualStack { v4, v6 } = addr::node(index);
    node.ip(&format!(
        "addr add {v4}/24 dev {UPLINK}\naddr add {v6}/64 dev {UPLINK} nodad\nlink set {UPLINK} up\n{NO_WAY_OUT}"
    ))?;
    Ok(node)
}

/// Adds the route from node `node` to the pods of node `peer`.
pub(crate) fn route_to_pods(node: &Netns, peer: u8) -> Result<()> {
    let (v4_pods, v6_pods) = addr::pod_cidrs(peer);
    let DualStack { v4, v6 } = addr::node(peer);
    node.ip(&format!(
        "route add {v4_pods} via {v4} dev {UPLINK}\nroute add {v6_pods} via {v6} dev {UPLINK}\n"
    ))
}

/// Makes the namespace of a pod, joined to its node by a link that is `host_link` on the node's side.
///
/// Like the `ptp` CNI plugin: the node holds the gateway address on each pod's link, and a host route to each pod.
pub(crate) fn make_pod(
    name: &str,
    node: &Netns,
    node_index: u8,
    pod: DualStack,
    host_link: &str,
) -> Result<Netns> {
    let netns = Netns::create(name)?;
    let gateway = addr::gateway_v4(node_index);
    let from = addr::node(node_index);
    let DualStack { v4, v6 } = pod;
    node.ip(&format!(
        "link add {host_link} type veth peer name eth0 netns {name}\n\
         addr add {gateway}/32 dev {host_link}\n\
         addr add {GATEWAY_V6}/64 dev {host_link} nodad\n\
         link set {host_link} up\n"
    ))?;
    netns.ip(&format!(
        "addr add {v4}/32 dev eth0\n\
         addr add {v6}/128 dev eth0 nodad\n\
         link set eth0 up\n\
         route add {gateway}/32 dev eth0 scope link\n\
         route add default via {gateway} dev eth0 src {v4}\n\
         route add ::/0 via {GATEWAY_V6} dev eth0 src {v6}\n"
    ))?;
    // `src`: what the node's own processes send to a pod comes from the node's address, not from the gateway's.
    node.ip(&format!(
        "route add {v4}/32 dev {host_link} scope link src {v4_from}\nroute add {v6}/128 dev {host_link} src {v6_from}\n",
        v4_from = from.v4,
        v6_from = from.v6,
    ))?;
    Ok(netns)
}
