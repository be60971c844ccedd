//! What tables and snapshots hold, and what changes.

use weft_proto::model::{ClusterEndpoints, Resource};

use super::*;

fn endpoints(name: &str) -> Resource {
    Resource::Endpoints(ClusterEndpoints {
        name: name.to_owned(),
        endpoints: Vec::new(),
    })
}

fn upsert(store: &Store, name: &str) {
    let mut batch = Batch::default();
    batch.upsert(endpoints(name));
    store.publish(batch);
}

fn remove(store: &Store, name: &str) {
    let mut batch = Batch::default();
    batch.remove(ResourceType::Endpoints, name.to_owned());
    store.publish(batch);
}

fn since(store: &Store, time: u64) -> Option<Vec<String>> {
    store.read(|s| {
        let names = s.table(ResourceType::Endpoints).since(time)?;
        Some(names.map(|n| n.to_string()).collect())
    })
}

#[test]
fn equal_content_is_no_change() {
    let store = Store::default();
    upsert(&store, "a");
    let time = store.read(Snapshot::time);
    upsert(&store, "a");
    assert_eq!(store.read(Snapshot::time), time);
}

#[test]
fn a_cursor_finds_what_came_after_it() {
    let store = Store::default();
    upsert(&store, "a");
    upsert(&store, "b");
    let time = store.read(Snapshot::time);
    remove(&store, "a");
    upsert(&store, "c");
    assert_eq!(
        since(&store, time),
        Some(vec!["a".to_owned(), "c".to_owned()])
    );
    upsert(&store, "a");
    assert_eq!(
        since(&store, time),
        Some(vec!["c".to_owned(), "a".to_owned()])
    );
}

#[test]
fn memory_stays_bounded_while_names_come_and_go() {
    let store = Store::default();
    let start = store.read(Snapshot::time);
    for i in 0..3 * MAX_TOMBSTONES {
        upsert(&store, &i.to_string());
        remove(&store, &i.to_string());
    }
    assert_eq!(
        since(&store, start),
        None,
        "what an old cursor has missed is not known"
    );
    store.read(|s| {
        let table = s.table(ResourceType::Endpoints);
        assert!(table.is_empty());
        assert!(table.log.len() <= MAX_TOMBSTONES);
        assert_eq!(table.log.len(), table.tombstones.len());
        assert!(table.names.len() <= MAX_TOMBSTONES + 1);
        let known = table.names.iter().flatten().count();
        assert_eq!(known, table.tombstones.len());
    });
}

#[test]
fn a_name_keeps_its_id_while_it_is_remembered() {
    let store = Store::default();
    upsert(&store, "a");
    upsert(&store, "b");
    let id = || store.read(|s| s.table(ResourceType::Endpoints).id("a"));
    let before = id();
    remove(&store, "a");
    assert_eq!(id(), before, "until streams are told");
    upsert(&store, "a");
    assert_eq!(id(), before);
    store.read(|s| {
        let table = s.table(ResourceType::Endpoints);
        let name = table.name(before.unwrap()).unwrap();
        assert_eq!(**name, *"a");
    });
}

#[test]
fn versions_are_the_same_on_every_replica() {
    // Written down on purpose: were they to differ between processes, every restart would send everything to everybody.
    let version = Version::salted("test", &endpoints("shop/cart:80/tcp"));
    assert_eq!(version.to_string(), "2cab58a05378875e");
}
