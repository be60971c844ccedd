//! Addresses for clients outside: who is let in, at every moment.

use std::net::IpAddr;

use weft_proto::model::policy::Cidr;
use weft_proto::model::{LbPolicy, Listener, LocalityMode, Resource, ServiceRef, Side};
use weft_proto::resource::ResourceType;

use super::kernel::{Kernel, Sizes};
use super::model::{Node, addresses, cluster, endpoint, healthy, listener, vip};
use crate::tables::{ServiceFlags, ServiceKey};

const ADDRESS: &str = "203.0.113.1";
const A: &str = "10.0.0.1:80";
const B: &str = "10.0.0.2:80";

fn outside(name: &str, ranges: &[&str]) -> Listener {
    let cidr = |text: &&str| {
        let (address, bits) = text.split_once('/').expect("a prefix");
        let address: IpAddr = address.parse().expect("address");
        Cidr::new(address, bits.parse().expect("bits")).expect("a prefix")
    };
    Listener {
        side: Side::Outside,
        source_ranges: ranges.iter().map(cidr).collect(),
        ..listener(name, &[ADDRESS], "a")
    }
}

fn key() -> ServiceKey {
    ServiceKey {
        side: Side::Outside,
        ..vip(ADDRESS)
    }
}

fn node(sizes: Sizes) -> Node {
    let mut node = Node::started(&Kernel::new(sizes));
    node.add_service("a", &["10.96.0.1"], healthy(&[A, B]));
    node
}

/// Whether a client is let in, as the kernel decides: the longest prefix, and who is in none.
fn lets_in(node: &Node, client: &str) -> bool {
    let client: IpAddr = client.parse().expect("address");
    let mut rules: Vec<(Option<u8>, bool)> = node.kernel.source_ranges.with(|m| {
        let of_key = m.iter().filter(|(k, _)| k.service == key());
        let matching = of_key.filter(|(k, _)| {
            k.clients
                .is_none_or(|c| Cidr::new(client, c.prefix) == Some(c))
        });
        let rules = matching.map(|(k, let_in)| (k.clients.map(|c| c.prefix), let_in.0));
        rules.collect()
    });
    rules.sort_unstable();
    rules.last().is_none_or(|(_, let_in)| *let_in)
}

#[test]
fn an_address_outside_is_its_own_and_may_lead_elsewhere() {
    let mut node = node(Sizes::AMPLE);
    node.set(Resource::Listener(listener("inside", &[ADDRESS], "a")));
    assert!(!node.kernel.nat.with(|m| m[&0].enabled));
    let mut local = cluster("local", LbPolicy::Random, LocalityMode::NodeOnly);
    local.endpoints = weft_proto::model::EndpointSource::Eds("a".into());
    node.set(Resource::Cluster(local));
    let here = endpoint(B, 1, weft_proto::model::Health::Healthy, super::model::NODE);
    let mut list = healthy(&[A]);
    list.push(here);
    node.set_endpoints("a", list);
    node.set(Resource::Listener(Listener {
        cluster: "local".into(),
        ..outside("outside", &[])
    }));
    assert_eq!(node.addresses(&vip(ADDRESS)), addresses(&[A, B]));
    assert_eq!(node.addresses(&key()), addresses(&[B]));
    let flags = |key| node.kernel.services.with(|m| m[&key].flags);
    assert_eq!(flags(key()), ServiceFlags::default().node_only(true));
    assert_eq!(flags(vip(ADDRESS)), ServiceFlags::default());
    assert!(node.kernel.nat.with(|m| m[&0].enabled));

    node.remove(ResourceType::Listener, "outside");
    assert_eq!(node.addresses(&key()), None);
    assert!(!node.kernel.nat.with(|m| m[&0].enabled));
    node.assert_sound();
}

#[test]
fn ranges_are_there_before_the_address_and_go_after_it() {
    let mut node = node(Sizes::AMPLE);
    node.set(Resource::Listener(outside(
        "o",
        &["192.0.2.0/24", "2001:db8::/32"],
    )));
    assert!(lets_in(&node, "192.0.2.7") && !lets_in(&node, "198.51.100.1"));
    assert_eq!(node.addresses(&key()), addresses(&[A, B]));

    // A smaller range, and another.
    node.set(Resource::Listener(outside(
        "o",
        &["192.0.2.128/25", "198.51.100.0/24"],
    )));
    assert!(!lets_in(&node, "192.0.2.7") && lets_in(&node, "192.0.2.200"));
    assert!(lets_in(&node, "198.51.100.1"));

    // Only of the other family: nobody.
    node.set(Resource::Listener(outside("o", &["2001:db8::/32"])));
    assert!(!lets_in(&node, "192.0.2.7"));

    node.set(Resource::Listener(outside("o", &[])));
    assert!(lets_in(&node, "192.0.2.7") && lets_in(&node, "198.51.100.1"));
    node.set(Resource::Listener(outside("o", &["192.0.2.0/24"])));
    node.remove(ResourceType::Listener, "o");
    assert!(node.kernel.source_ranges.with(|m| m.is_empty()));
    assert_eq!(node.addresses(&key()), None);
    node.assert_sound();
}

/// A table without room for the ranges: the address is not served, whether it was open before or not.
#[test]
fn an_address_that_cannot_be_restricted_is_not_served() {
    let mut node = node(Sizes {
        services: 2,
        ..Sizes::AMPLE
    });
    node.set(Resource::Listener(outside("o", &[])));
    assert_eq!(node.addresses(&key()), addresses(&[A, B]));
    let many = ["192.0.2.0/25", "192.0.2.128/25", "198.51.100.0/24"];
    let applied = node.set(Resource::Listener(outside("o", &many)));
    let reason = &applied.rejected.first().expect("it is refused").reason;
    assert!(reason.contains("source_ranges"), "{reason}");
    assert_eq!(node.addresses(&key()), None);

    node.set(Resource::Listener(outside("o", &["192.0.2.0/25"])));
    assert_eq!(node.addresses(&key()), addresses(&[A, B]));
    assert!(lets_in(&node, "192.0.2.7") && !lets_in(&node, "198.51.100.1"));
    node.assert_sound();
}

#[test]
fn ranges_that_an_earlier_agent_left_are_kept_until_all_is_known() {
    let kernel = Kernel::new(Sizes::AMPLE);
    {
        let mut node = Node::started(&kernel);
        node.add_service("a", &["10.96.0.1"], healthy(&[A, B]));
        node.set(Resource::Listener(outside("o", &["192.0.2.0/24"])));
    }
    let mut node = Node::starting(&kernel);
    node.add_service("a", &["10.96.0.1"], healthy(&[A, B]));
    assert!(lets_in(&node, "192.0.2.7") && !lets_in(&node, "198.51.100.1"));
    assert_eq!(node.addresses(&key()), addresses(&[A, B]));
    node.sync();
    assert_eq!(node.addresses(&key()), None);
    assert!(node.kernel.source_ranges.with(|m| m.is_empty()));
    node.assert_sound();
}

#[test]
fn health_is_that_of_ready_backends_of_this_node() {
    use weft_proto::model::Health;
    let mut node = node(Sizes::AMPLE);
    let told = node.engine.healths();
    let service = ServiceRef {
        namespace: "shop".into(),
        name: "web".into(),
        port_name: String::new(),
    };
    node.set(Resource::Listener(Listener {
        service: Some(service),
        health_check_port: Some(32_000),
        ..outside("o", &[])
    }));
    let local = |node: &mut Node, health: &[(&str, Health, &str)]| {
        let list = health.iter().map(|(a, h, n)| endpoint(a, 1, *h, n));
        node.set_endpoints("a", list.collect());
        told.borrow().get(&32_000).map(|h| h.local)
    };
    let here = super::model::NODE;
    let all = [(A, Health::Healthy, here), (B, Health::Healthy, "there")];
    assert_eq!(local(&mut node, &all), Some(1));
    // One pod with an address in each family.
    let dual = [
        (A, Health::Healthy, here),
        ("[fd00::1]:80", Health::Healthy, here),
    ];
    assert_eq!(local(&mut node, &dual), Some(1));
    assert_eq!(local(&mut node, &[(A, Health::Draining, here)]), Some(0));
    node.remove(ResourceType::Listener, "o");
    assert!(told.borrow().is_empty());
}
