//! Names for tests: two nodes, a probe in `default` and a cart in `shop`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use weft_proto::model::policy::ObjectRef;
use weft_proto::model::{Workload, WorkloadKind};

use super::{Names, RuleName, protocol};
use crate::check::{Directory, ServicePort};

pub(crate) const PROBE: [u8; 4] = [10, 0, 1, 1];
pub(crate) const CART: [u8; 4] = [10, 0, 1, 2];
/// On node n2.
pub(crate) const WEB: [u8; 4] = [10, 0, 2, 3];
pub(crate) const NODE: [u8; 4] = [10, 0, 0, 1];
pub(crate) const VIP: [u8; 4] = [10, 96, 0, 10];
/// A rule of NetworkPolicy shop/cart-ingress.
pub(crate) const FROM_WEB: u32 = 1;
/// NetworkPolicy shop/cart-ingress selects.
pub(crate) const SELECTED: u32 = 2;
/// A rule of ClusterNetworkPolicy no-ssh.
pub(crate) const NO_SSH: u32 = 3;

pub(crate) struct Fake {
    workloads: BTreeMap<IpAddr, Workload>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let mut workloads = BTreeMap::new();
        for (namespace, name, node, addresses) in [
            ("default", "probe", "n1", vec![PROBE.into(), v6(1)]),
            (
                "shop",
                "cart-7d9c5b8f6-x2x7k",
                "n1",
                vec![CART.into(), v6(2)],
            ),
            ("shop", "web-0", "n2", vec![WEB.into()]),
        ] {
            let pod = pod(namespace, name, node, addresses);
            for address in &pod.addresses {
                workloads.insert(*address, pod.clone());
            }
        }
        let node = Workload {
            name: "node/n1".into(),
            kind: WorkloadKind::Node,
            ..pod("", "", "n1", vec![NODE.into()])
        };
        workloads.insert(NODE.into(), node);
        Self { workloads }
    }

    /// The cart's address is another pod's.
    pub(crate) fn rename_cart(&mut self) {
        if let Some(pod) = self.workloads.get_mut(&IpAddr::from(CART)) {
            pod.name = "pod/shop/another".to_owned();
        }
    }
}

pub(crate) fn v6(last: u16) -> IpAddr {
    [0xfd00, 0, 0, 0, 0, 0, 0, last].into()
}

fn pod(namespace: &str, name: &str, node: &str, addresses: Vec<IpAddr>) -> Workload {
    Workload {
        name: format!("pod/{namespace}/{name}"),
        kind: WorkloadKind::Pod,
        addresses,
        node: node.into(),
        zone: String::new(),
        namespace: namespace.into(),
        service_account: if namespace.is_empty() { "" } else { "default" }.into(),
        labels: BTreeMap::from([("pod-template-hash".into(), "7d9c5b8f6".into())]),
        spiffe_id: String::new(),
        host_network: false,
        unaccelerated: false,
        out_of_mesh: false,
        mtls: Default::default(),
        ports: Vec::new(),
    }
}

impl Names for Fake {
    fn generation(&self) -> u64 {
        0
    }

    fn workload(&self, address: IpAddr) -> Option<&Workload> {
        self.workloads.get(&address)
    }

    fn service(&self, id: u32) -> Option<String> {
        (id == 7).then(|| "shop/cart".to_owned())
    }

    fn service_at(&self, vip: SocketAddr, _: u8) -> Option<String> {
        (vip.ip() == IpAddr::from(VIP)).then(|| "shop/cart".to_owned())
    }

    fn rule(&self, id: u32) -> Option<RuleName> {
        let (kind, namespace, name, rule) = match id {
            FROM_WEB => ("NetworkPolicy", "shop", "cart-ingress", "ingress[0]"),
            SELECTED => ("NetworkPolicy", "shop", "cart-ingress", ""),
            NO_SSH => ("ClusterNetworkPolicy", "", "no-ssh", "deny-22"),
            _ => return None,
        };
        Some(RuleName {
            object: ObjectRef {
                kind: kind.into(),
                namespace: namespace.into(),
                name: name.into(),
            },
            rule: rule.into(),
        })
    }

    fn identity(&self, number: u32) -> Option<String> {
        (number == 1).then(|| "world".to_owned())
    }
}

impl Directory for Fake {
    fn node(&self) -> &str {
        "n1"
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<&Workload> {
        let wanted = format!("pod/{namespace}/{name}");
        self.workloads.values().find(|w| w.name == wanted)
    }

    fn service_ports(&self, namespace: &str, name: &str) -> Vec<ServicePort> {
        let backends = match (namespace, name) {
            ("shop", "cart") => vec![
                (IpAddr::from(CART), 8080).into(),
                (IpAddr::from(WEB), 8080).into(),
                (v6(2), 8080).into(),
            ],
            ("shop", "nobody") => Vec::new(),
            _ => return Vec::new(),
        };
        vec![ServicePort {
            service: format!("{namespace}/{name}"),
            port: 80,
            protocol: protocol::TCP,
            backends,
            by_proxy: false,
        }]
    }

    fn service_ports_at(&self, address: IpAddr) -> Vec<ServicePort> {
        if address == IpAddr::from(VIP) {
            self.service_ports("shop", "cart")
        } else {
            Vec::new()
        }
    }

    fn ports_behind(&self, addresses: &[IpAddr]) -> Vec<(u16, u8)> {
        if addresses.contains(&CART.into()) {
            vec![(8080, protocol::TCP)]
        } else {
            Vec::new()
        }
    }
}
