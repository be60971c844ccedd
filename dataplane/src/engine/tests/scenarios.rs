//! What an operator would tell as a story.

use std::time::Duration;

use weft_proto::model::{Health, Layer, LbPolicy, LocalityMode, Resource};
use weft_proto::resource::ResourceType;

use super::kernel::{Kernel, Sizes};
use super::model::{Node, addresses, cluster, endpoint, healthy, listener, pod, vip};
use crate::tables::BackendId;

const VIP: &str = "10.96.0.1";
const A: &str = "10.0.0.1:80";
const B: &str = "10.0.0.2:80";
const C: &str = "10.0.0.3:80";

fn node() -> Node {
    Node::started(&Kernel::new(Sizes::AMPLE))
}

fn id_of(node: &Node, address: &str) -> BackendId {
    let address = address.parse().expect("address");
    node.kernel.backends.with(|m| {
        let found = m.iter().find(|(_, entry)| entry.address == address);
        *found.expect("a backend at this address").0
    })
}

#[test]
fn a_service_is_served_whatever_arrives_first() {
    let resources = || {
        let endpoints = weft_proto::model::ClusterEndpoints {
            name: "a".into(),
            endpoints: healthy(&[A, B]),
        };
        [
            Resource::Cluster(cluster("a", LbPolicy::Random, LocalityMode::None)),
            Resource::Endpoints(endpoints),
            Resource::Listener(listener("a", &[VIP], "a")),
        ]
    };
    for order in [[0, 1, 2], [0, 2, 1], [2, 0, 1]] {
        let mut node = node();
        for index in order {
            node.set(resources()[index].clone());
        }
        assert_eq!(node.addresses(&vip(VIP)), addresses(&[A, B]), "{order:?}");
        node.assert_sound();
    }
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut node = node();
    node.add_service("a", &[VIP], healthy(&[A, B]));
    let before = node.kernel.operations();
    node.add_service("a", &[VIP], healthy(&[B, A]));
    assert_eq!(node.kernel.operations(), before);
    // An endpoint that nobody is sent to changes nothing either.
    let mut list = healthy(&[A, B]);
    list.push(endpoint(C, 1, Health::Unhealthy, ""));
    node.set_endpoints("a", list);
    assert_eq!(node.kernel.operations(), before);
}

#[test]
fn a_change_of_policy_alone_keeps_slots_that_are_the_same() {
    let mut node = node();
    node.add_service("a", &[VIP], healthy(&[A, B]));
    let before = node.kernel.dump();
    let least = cluster("a", LbPolicy::LeastRequest, LocalityMode::None);
    node.set(Resource::Cluster(least));
    let after = node.kernel.dump();
    assert_eq!(
        (before.slots, before.backends),
        (after.slots, after.backends)
    );
    let policies: Vec<_> = after.services.values().map(|e| e.policy).collect();
    assert_eq!(policies, [LbPolicy::LeastRequest]);
}

#[test]
fn one_id_for_all_vips_of_a_cluster_and_family() {
    let mut node = node();
    let mut list = healthy(&[A]);
    list.extend(healthy(&["[fd00::1]:80"]));
    node.add_service("a", &[VIP, "10.96.0.2", "fd00:96::1"], list);
    node.set(Resource::Listener(listener("b", &["10.96.0.3"], "a")));
    let services = node.kernel.dump().services;
    let id = |address| services[&vip(address)].id;
    assert_eq!(id(VIP), id("10.96.0.2"));
    assert_eq!(id(VIP), id("10.96.0.3"));
    assert_ne!(id(VIP), id("fd00:96::1"));
    assert_eq!(
        node.addresses(&vip("fd00:96::1")),
        addresses(&["[fd00::1]:80"])
    );
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[A]));
}

#[test]
fn a_vip_without_cluster_or_endpoints_is_refused() {
    let mut node = node();
    node.set(Resource::Listener(listener("a", &[VIP], "a")));
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[]));
    let asked = node.set(Resource::Cluster(cluster(
        "a",
        LbPolicy::Random,
        LocalityMode::None,
    )));
    assert_eq!(asked.subscribe, ["a"]);
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[]));
    node.set_endpoints("a", healthy(&[A]));
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[A]));
    let left = node.remove(ResourceType::Cluster, "a");
    assert_eq!(left.unsubscribe, ["a"]);
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[]));
    node.remove(ResourceType::Listener, "a");
    assert_eq!(node.addresses(&vip(VIP)), None);
    let dump = node.kernel.dump();
    assert!(
        dump.slots.is_empty() && dump.backends.is_empty(),
        "{dump:?}"
    );
}

#[test]
fn endpoints_still_to_come_do_not_take_a_working_service_away() {
    let mut node = node();
    node.add_service("a", &[VIP], healthy(&[A]));
    let mut renamed = cluster("a", LbPolicy::Random, LocalityMode::None);
    renamed.endpoints = weft_proto::model::EndpointSource::Eds("a-v2".into());
    let applied = node.set(Resource::Cluster(renamed));
    assert_eq!(
        (applied.subscribe, applied.unsubscribe),
        (vec!["a-v2".into()], vec!["a".into()])
    );
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[A]));
    node.set_endpoints("a-v2", healthy(&[B]));
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[B]));
}

#[test]
fn the_first_listener_by_name_has_the_vip_and_the_next_takes_over() {
    let mut node = node();
    node.add_service("b", &[VIP, "10.96.0.2"], healthy(&[B]));
    node.add_service("a", &[VIP], healthy(&[A]));
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[A]));
    assert_eq!(node.addresses(&vip("10.96.0.2")), addresses(&[B]));
    let reason = node.engine.rejection(ResourceType::Listener, "b");
    assert!(reason.is_some_and(|r| r.contains("10.96.0.1:80/tcp") && r.contains("\"a\"")));
    let again = node.set(Resource::Listener(listener("c", &[VIP], "b")));
    assert_eq!(again.rejected.len(), 1);
    node.remove(ResourceType::Listener, "a");
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[B]));
    assert_eq!(node.engine.rejection(ResourceType::Listener, "b"), None);
    assert!(node.engine.rejection(ResourceType::Listener, "c").is_some());
    node.assert_sound();
}

#[test]
fn a_layer_7_listener_is_rejected_and_the_last_good_one_stays() {
    let mut node = node();
    node.add_service("a", &[VIP], healthy(&[A]));
    let mut seven = listener("a", &[VIP], "");
    seven.layer = Layer::Seven;
    let applied = node.set(Resource::Listener(seven));
    assert!(
        applied.rejected[0].reason.contains("layer 7"),
        "{applied:?}"
    );
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[A]));
}

#[test]
fn a_removed_endpoint_is_closed_and_one_that_drains_or_fails_is_not() {
    let mut node = node();
    node.set(Resource::Workload(pod(
        "pod/x/b",
        "10.0.0.2".parse().expect("ip"),
    )));
    node.add_service("a", &[VIP], healthy(&[A, B, C]));
    let (b, c) = (id_of(&node, B), id_of(&node, C));
    let mut list = healthy(&[A]);
    list.push(endpoint(B, 1, Health::Draining, ""));
    list.push(endpoint(C, 1, Health::Unhealthy, ""));
    node.set_endpoints("a", list);
    assert!(node.kernel.take_closed().is_empty());
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[A]));
    let accepts = |id: BackendId| node.kernel.backends.with(|m| m[&id].accepts);
    assert!(!accepts(b) && !accepts(c));
    // Taken out of its endpoints: closed, whether or not a workload has the address.
    node.set_endpoints("a", healthy(&[A]));
    assert_eq!(node.kernel.take_closed(), [b, c].into());
    assert_eq!(node.kernel.loads.with(|m| m.len()), 1);
}

#[test]
fn connections_outlive_their_service_while_the_workload_lives() {
    let mut node = node();
    node.set(Resource::Workload(pod(
        "pod/x/a",
        "10.0.0.1".parse().expect("ip"),
    )));
    node.add_service("a", &[VIP], healthy(&[A, B]));
    let (a, b) = (id_of(&node, A), id_of(&node, B));
    node.remove(ResourceType::Listener, "a");
    assert_eq!(node.kernel.take_closed(), [b].into());
    // Also over a restart of the agent.
    let mut node = Node::starting(&node.kernel);
    node.set(Resource::Workload(pod(
        "pod/x/a",
        "10.0.0.1".parse().expect("ip"),
    )));
    node.sync();
    assert!(node.kernel.take_closed().is_empty());
    assert!(node.kernel.backends.with(|m| m.contains_key(&a)));
    node.remove(ResourceType::Workload, "pod/x/a");
    node.pass(Duration::from_secs(5));
    assert_eq!(node.kernel.take_closed(), [a].into());
    assert!(node.kernel.backends.with(|m| m.is_empty()));
}

#[test]
fn draining_ends_after_its_time_but_not_while_it_is_the_last_resort() {
    let mut node = node();
    node.add_service("a", &[VIP], healthy(&[A, B]));
    let b = id_of(&node, B);
    let draining = |others: Health| {
        vec![
            endpoint(A, 1, others, ""),
            endpoint(B, 1, Health::Draining, ""),
        ]
    };
    node.set_endpoints("a", draining(Health::Healthy));
    node.pass(Duration::from_secs(599));
    assert!(node.kernel.take_closed().is_empty());
    node.pass(Duration::from_secs(1));
    assert_eq!(node.kernel.take_closed(), [b].into());
    node.pass(Duration::from_secs(1000));
    assert!(node.kernel.take_closed().is_empty(), "only once");
    // Last resort: it takes connections again, and keeps them.
    node.set_endpoints("a", draining(Health::Unhealthy));
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[B]));
    node.pass(Duration::from_secs(1000));
    assert!(node.kernel.take_closed().is_empty());
    node.set_endpoints("a", draining(Health::Healthy));
    node.pass(Duration::from_secs(1));
    assert_eq!(
        node.kernel.take_closed(),
        [b].into(),
        "those that came meanwhile are due"
    );
}

#[test]
fn the_zone_of_this_node_comes_from_its_own_workload() {
    let mut node = node();
    let zonal = cluster("a", LbPolicy::Random, LocalityMode::PreferZone);
    node.set(Resource::Cluster(zonal));
    let mut list = healthy(&[A, B]);
    list[0].locality.zone = "z1".into();
    list[1].locality.zone = "z2".into();
    node.set_endpoints("a", list);
    node.set(Resource::Listener(listener("a", &[VIP], "a")));
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[A, B]));
    let mut this = pod("node/here", "192.0.2.1".parse().expect("ip"));
    this.kind = weft_proto::model::WorkloadKind::Node;
    this.node = super::model::NODE.into();
    this.zone = "z2".into();
    node.set(Resource::Workload(this));
    assert_eq!(node.addresses(&vip(VIP)), addresses(&[B]));
}

#[test]
fn a_restart_changes_nothing_and_deletes_nothing_before_it_knows_all() {
    let mut node = node();
    node.add_service("a", &[VIP], healthy(&[A, B]));
    node.add_service("b", &["10.96.0.2"], healthy(&[C]));
    let before = node.kernel.dump();

    let mut node = Node::starting(&node.kernel);
    assert_eq!(node.kernel.dump(), before);
    node.set(Resource::Listener(listener("a", &[VIP], "a")));
    node.set(Resource::Cluster(cluster(
        "a",
        LbPolicy::Random,
        LocalityMode::None,
    )));
    assert_eq!(node.kernel.dump(), before);
    node.set_endpoints("a", healthy(&[A]));
    assert_eq!(
        node.addresses(&vip(VIP)),
        addresses(&[A]),
        "changes take effect at once"
    );
    assert_eq!(
        node.addresses(&vip("10.96.0.2")),
        addresses(&[C]),
        "not told of yet"
    );
    assert!(node.kernel.take_closed().is_empty());
    // The server may have split its state: what comes within a second of the sync still counts.
    node.engine.set_synced(node.now);
    node.pass(Duration::from_millis(500));
    assert_eq!(node.addresses(&vip("10.96.0.2")), addresses(&[C]));
    node.add_service("b", &["10.96.0.2"], healthy(&[C]));
    node.pass(Duration::from_secs(1));
    assert_eq!(node.addresses(&vip("10.96.0.2")), addresses(&[C]));
    assert_eq!(
        node.kernel.take_closed().len(),
        1,
        "B, which went while nobody looked"
    );
    assert_eq!(node.kernel.backends.with(|m| m.len()), 2);
    node.assert_sound();
}

#[test]
fn ids_wrap_around_those_in_use() {
    let mut node = node();
    node.add_service("a", &[VIP], healthy(&[A]));
    let first = id_of(&node, A);
    node.kernel.ids.with(|m| {
        m.values_mut().for_each(|ids| ids.next_backend = u32::MAX);
    });
    let mut node = Node::starting(&node.kernel);
    node.add_service("a", &[VIP], healthy(&[A, B, C]));
    node.sync();
    assert_eq!(id_of(&node, A), first);
    assert_eq!(id_of(&node, B), BackendId(u32::MAX));
    assert_eq!(
        id_of(&node, C),
        BackendId(2),
        "1 is in use and 0 means none"
    );
}

#[test]
fn a_kill_between_deleting_and_closing_is_made_up_for() {
    let mut node = node();
    node.add_service("a", &[VIP], healthy(&[A, B]));
    let b = id_of(&node, B);
    node.kernel.backends.with(|m| m.remove(&b));
    let list = healthy(&[A]);
    let mut node = Node::starting(&node.kernel);
    node.add_service("a", &[VIP], list);
    assert!(node.kernel.take_closed().is_empty());
    node.sync();
    assert_eq!(node.kernel.take_closed(), [b].into());
    assert_eq!(node.kernel.loads.with(|m| m.len()), 1);
}

#[test]
fn a_service_is_reached_at_its_addresses_and_at_all_its_endpoints() {
    let mut node = node();
    let mut list = healthy(&[A, B]);
    list.push(endpoint(C, 1, Health::Unhealthy, ""));
    node.add_service("a", &[VIP], list);
    let named = |name: &str, vips: &[&str], of: &str| {
        let mut listener = listener(name, vips, "a");
        listener.service = Some(weft_proto::model::ServiceRef {
            namespace: "shop".to_owned(),
            name: of.to_owned(),
            port_name: String::new(),
        });
        Resource::Listener(listener)
    };
    node.set(named("a", &[VIP], "cart"));
    node.set(named("b", &["10.96.0.2"], "other"));
    let asked = ["shop/nobody", "shop/cart"].map(str::to_owned);
    let mut found = node.engine.reached_at(&asked);
    found.sort();
    let expected = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.96.0.1:80"];
    let expected = expected.map(|a| (1, (a.parse().expect("an address"), 6)));
    assert_eq!(found, expected);
}
