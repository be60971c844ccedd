//! The address plan: which node and pod has which address.
//!
//! | what | IPv4 | IPv6 |
//! |---|---|---|
//! | node N | `10.201.0.N/24` | `fd00:201::N/64` |
//! | pods of node N | `10.244.N.0/24` | `fd00:244:N::/64` |
//! | pods' gateway on node N | `10.244.N.1` | `fe80::1` |
//! | service addresses | `10.96.0.0/16` | `fd00:96::/112` |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Nodes a lab can have.
pub const MAX_NODES: u8 = 250;
/// Pods a node can have.
pub const MAX_PODS: u8 = 240;
/// Index of a node's first pod in its CIDR; those below are the gateway and reserved.
const FIRST_POD: u8 = 10;

/// An IPv4 and an IPv6 address of the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DualStack {
    /// The IPv4 address.
    pub v4: Ipv4Addr,
    /// The IPv6 address.
    pub v6: Ipv6Addr,
}

impl DualStack {
    /// Both addresses, IPv4 first, as Kubernetes lists them.
    pub fn both(self) -> [IpAddr; 2] {
        [self.v4.into(), self.v6.into()]
    }

    /// Both with a port.
    pub fn sockets(self, port: u16) -> [SocketAddr; 2] {
        self.both().map(|ip| SocketAddr::new(ip, port))
    }
}

/// Addresses of node `node` (from 1) on the fabric.
pub fn node(node: u8) -> DualStack {
    DualStack {
        v4: Ipv4Addr::new(10, 201, 0, node),
        v6: Ipv6Addr::new(0xfd00, 0x201, 0, 0, 0, 0, 0, node.into()),
    }
}

/// Addresses of the `index`th pod (from 0) of node `node`.
pub fn pod(node: u8, index: u8) -> DualStack {
    let host = FIRST_POD + index;
    DualStack {
        v4: Ipv4Addr::new(10, 244, node, host),
        v6: Ipv6Addr::new(0xfd00, 0x244, node.into(), 0, 0, 0, 0, host.into()),
    }
}

/// Which pod of node `node` has `addresses` in the plan; the reverse of [`pod`].
pub fn pod_index(node: u8, addresses: DualStack) -> Option<u8> {
    (0..MAX_PODS).find(|index| pod(node, *index) == addresses)
}

/// The pods' IPv4 gateway on node `node`; the IPv6 one is [`GATEWAY_V6`].
pub fn gateway_v4(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 244, node, 1)
}

/// The pods' IPv6 gateway: the same link-local address on every pod's link.
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// Pod networks of node `node`, as `(IPv4 CIDR, IPv6 CIDR)`.
pub fn pod_cidrs(node: u8) -> (String, String) {
    (
        format!("10.244.{node}.0/24"),
        format!("fd00:244:{node:x}::/64"),
    )
}

/// The `index`th service address (from 0); up to 65,000 of them.
pub fn service(index: u16) -> DualStack {
    let [high, low] = (index + 1).to_be_bytes();
    DualStack {
        v4: Ipv4Addr::new(10, 96, high, low),
        v6: Ipv6Addr::new(0xfd00, 0x96, 0, 0, 0, 0, 0, index + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_the_plan() {
        assert_eq!(node(2).v4.to_string(), "10.201.0.2");
        assert_eq!(node(2).v6.to_string(), "fd00:201::2");
        assert_eq!(pod(1, 0).v4.to_string(), "10.244.1.10");
        assert_eq!(pod(1, 0).v6.to_string(), "fd00:244:1::a");
        assert_eq!(service(0).v4.to_string(), "10.96.0.1");
        assert_eq!(service(255).v4.to_string(), "10.96.1.0");
        assert_eq!(service(255).v6.to_string(), "fd00:96::100");
    }

    #[test]
    fn pods_lie_in_their_nodes_network_up_to_the_last() {
        let last = pod(MAX_NODES, MAX_PODS - 1);
        assert_eq!(last.v4.octets()[2], MAX_NODES);
        assert_eq!(last.v4.octets()[3], 249);
        assert!(
            last.v6
                .to_string()
                .starts_with(&pod_cidrs(MAX_NODES).1[..11])
        );
    }
}
