//! Full tables and writes that fail.

use std::time::Duration;

use weft_proto::model::Resource;
use weft_proto::resource::ResourceType;

use super::kernel::{Kernel, Sizes};
use super::model::{Node, addresses, healthy, listener, vip};

const A: &str = "10.0.0.1:80";
const B: &str = "10.0.0.2:80";
const C: &str = "10.0.0.3:80";

fn node(services: usize, slots: usize, backends: usize) -> Node {
    Node::started(&Kernel::new(Sizes {
        services,
        slots,
        backends,
    }))
}

#[test]
fn without_room_a_new_service_is_refused_and_says_why() {
    let mut node = node(10, 10, 2);
    node.add_service("a", &["10.96.0.1"], healthy(&[A, B]));
    node.add_service("b", &["10.96.0.2"], healthy(&[C]));
    assert_eq!(node.addresses(&vip("10.96.0.1")), addresses(&[A, B]));
    assert_eq!(node.addresses(&vip("10.96.0.2")), addresses(&[]));
    for t in [
        ResourceType::Cluster,
        ResourceType::Endpoints,
        ResourceType::Listener,
    ] {
        let reason = node.engine.rejection(t, "b").expect("a reason");
        assert!(
            reason.contains("map backends is full (2 entries)"),
            "{reason}"
        );
        assert_eq!(node.engine.rejection(t, "a"), None);
    }
    let ids = node.kernel.dump();
    node.pass(Duration::from_secs(60));
    assert_eq!(node.kernel.dump(), ids, "trying again costs nothing");
    // Room appears: no need to wait for the next try.
    node.set_endpoints("a", healthy(&[A]));
    assert_eq!(node.addresses(&vip("10.96.0.2")), addresses(&[C]));
    assert_eq!(node.engine.rejections(), []);
    let full = node.engine.summary().maps;
    assert!(full.iter().any(|m| m.name == "backends" && m.full > 0));
}

#[test]
fn without_room_an_old_service_keeps_its_slots() {
    let mut node = node(10, 3, 10);
    node.add_service("a", &["10.96.0.1"], healthy(&[A, B]));
    let answer = node.set_endpoints("a", healthy(&[A, C]));
    assert_eq!(answer.rejected.len(), 1);
    assert_eq!(answer.rejected[0].name, "a");
    assert_eq!(node.addresses(&vip("10.96.0.1")), addresses(&[A, B]));
    assert_eq!(node.kernel.backends.with(|m| m.len()), 2);
    assert!(node.kernel.take_closed().is_empty());
    node.assert_sound();
}

#[test]
fn a_vip_without_room_waits_for_another_to_go() {
    let mut node = node(1, 100, 100);
    node.add_service("a", &["10.96.0.1"], healthy(&[A]));
    node.add_service("b", &["10.96.0.2"], healthy(&[B]));
    assert_eq!(node.addresses(&vip("10.96.0.2")), None);
    let reason = node.engine.rejection(ResourceType::Listener, "b");
    assert!(reason.is_some_and(|r| r.contains("map services is full")));
    node.remove(ResourceType::Listener, "a");
    assert_eq!(node.addresses(&vip("10.96.0.2")), addresses(&[B]));
}

#[test]
fn every_single_failing_write_is_made_up_for() {
    // How many operations an undisturbed run takes.
    let run = |node: &mut Node| {
        node.add_service("a", &["10.96.0.1", "10.96.0.3"], healthy(&[A, B]));
        node.set_endpoints("a", healthy(&[B, C]));
        node.set(Resource::Listener(listener("b", &["10.96.0.2"], "a")));
        node.remove(ResourceType::Listener, "a");
    };
    let mut undisturbed = node(10, 100, 100);
    run(&mut undisturbed);
    let operations = undisturbed.kernel.operations();
    assert!(operations > 8, "{operations}");
    for failing in 0..operations {
        for after in 0..2 {
            let mut node = node(10, 100, 100);
            let quiet = std::iter::repeat_n(None, failing);
            node.kernel.set_faults(quiet.chain([Some(after)]));
            run(&mut node);
            node.assert_sound();
            node.pass(Duration::from_secs(60));
            node.assert_sound();
            assert_eq!(node.addresses(&vip("10.96.0.2")), addresses(&[B, C]));
            assert_eq!(node.addresses(&vip("10.96.0.1")), None);
            assert_eq!(node.engine.rejections(), [], "operation {failing}");
            let dump = node.kernel.dump();
            assert_eq!((dump.slots.len(), dump.backends.len()), (2, 2), "{dump:?}");
            assert_eq!(node.kernel.loads.with(|m| m.len()), 2);
        }
    }
}
