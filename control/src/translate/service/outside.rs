//! How clients outside the cluster reach a port: at the nodes, at `externalIPs` and at load balancers' addresses. All of it at layer 4,
//! whether the port has routes or not: no Envoy stands where such packets come in.
//!
//! See <https://kubernetes.io/docs/reference/networking/virtual-ips/#external-traffic-policy>.

use weft_proto::model::{Cluster, Listener, Side};

use super::BalancedPort;
use crate::model::NodePort;

/// Ends the name of a cluster that only these listeners name; the listeners' have a word more.
const OUTSIDE: &str = "@outside";
const AT_NODES: &str = "nodes";
const AT_EXTERNAL_IPS: &str = "external";
const AT_BALANCERS: &str = "balancer";

/// Its listeners, and their cluster if it is not that of clients inside. `at_nodes`: the node port's listener for these.
pub(super) fn of_port(
    port: BalancedPort<'_>,
    at_nodes: Option<&Listener>,
) -> (Vec<Listener>, Option<Cluster>) {
    let outside = &port.service.outside;
    let name = |place: &str| format!("{}{OUTSIDE}-{place}", port.resource());
    let at_nodes = at_nodes.map(|inside| Listener {
        name: name(AT_NODES),
        ..inside.clone()
    });
    let at_external_ips = port.at(name(AT_EXTERNAL_IPS), port.owned(&outside.external_ips));
    let at_balancers = port.at(name(AT_BALANCERS), port.owned(&outside.balancer_ips));
    let at_balancers = at_balancers.map(|listener| Listener {
        source_ranges: outside.source_ranges.clone(),
        ..listener
    });
    let mut listeners: Vec<Listener> = [at_nodes, at_external_ips, at_balancers]
        .into_iter()
        .flatten()
        .collect();
    let cluster = cluster(port).filter(|_| !listeners.is_empty());
    let health_check_port = health_check_port(port);
    for listener in &mut listeners {
        listener.side = Side::Outside;
        listener.health_check_port = health_check_port;
        if let Some(cluster) = &cluster {
            listener.cluster.clone_from(&cluster.name);
        }
    }
    (listeners, cluster)
}

/// `None`: backends are chosen as for clients inside.
fn cluster(port: BalancedPort<'_>) -> Option<Cluster> {
    let inside = port.cluster();
    let locality = port.locality(port.service.outside.locality);
    (locality != inside.locality).then(|| Cluster {
        name: format!("{}{OUTSIDE}", inside.name),
        locality,
        // No request goes through it.
        http: false,
        ..inside
    })
}

/// Unless it is another service's: what answers there speaks for one.
fn health_check_port(port: BalancedPort<'_>) -> Option<u16> {
    let number = port.service.outside.health_check_port?;
    let winner = port.model.node_port(NodePort::health_check(number))?;
    (winner.service == *port.name).then_some(number)
}
