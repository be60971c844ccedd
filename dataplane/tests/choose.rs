//! The kernel's choice of a backend, run by `BPF_PROG_TEST_RUN` against tables that the test fills.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    missing_docs
)]

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, ProgramInput};
use weft_dataplane::bpf::{BpfTable, open_tables};
use weft_dataplane::outsiders::NetnsCookie;
use weft_dataplane::tables::{
    BackendEntry, BackendId, BackendLoad, Generation, ServiceEntry, ServiceFlags, ServiceId,
    ServiceKey, Slot, SlotKey, Table, Tables, WriteError,
};
use weft_proto::model::{LbPolicy, Protocol};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/weft-tests.bpf.o"));
const SERVICE: ServiceId = ServiceId(7);
const GENERATION: Generation = Generation(3);
/// As in bpf/include/abi.h.
const SERVICE_LAYER7: ServiceFlags = ServiceFlags(64);

/// `enum choice_result` of bpf/lib/choose.h.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Answer {
    NoService,
    Backend(u32),
    NoBackend,
    Proxied,
}

struct Kernel {
    object: Object,
    tables: RefCell<Tables>,
}

impl Kernel {
    fn new() -> Self {
        let object = ObjectBuilder::default()
            .open_memory(OBJECT)
            .and_then(|open| open.load())
            .expect("loading needs root and BPF: run as root");
        let map = |name| {
            let map = object.maps().find(|m| m.name() == name).unwrap();
            Ok(MapHandle::try_from(&map).unwrap())
        };
        let tables = RefCell::new(open_tables(map).unwrap());
        Self { object, tables }
    }

    fn outsiders(&self) -> BpfTable<NetnsCookie, u32> {
        let map = self.object.maps().find(|m| m.name() == "outsiders");
        let map = MapHandle::try_from(&map.unwrap()).unwrap();
        BpfTable::new("outsiders", map).unwrap()
    }

    fn tables(&self) -> RefMut<'_, Tables> {
        self.tables.borrow_mut()
    }

    /// One service of `policy` over these slots; every backend mentioned exists with weight 1.
    fn service(&self, policy: LbPolicy, affinity_seconds: u32, slots: &[(u32, u32, u32)]) {
        let mut tables = self.tables();
        let entries: Vec<_> = slots
            .iter()
            .zip(0..)
            .map(|((backend, alias, threshold), index)| {
                let key = SlotKey {
                    service: SERVICE,
                    generation: GENERATION,
                    index,
                };
                let slot = Slot {
                    backend: BackendId(*backend),
                    alias: BackendId(*alias),
                    threshold: *threshold,
                };
                (key, slot)
            })
            .collect();
        tables.slots.write(&entries).unwrap();
        drop(tables);
        for (backend, alias, _) in slots {
            self.backend(*backend, 1, true);
            self.backend(*alias, 1, true);
        }
        let entry = ServiceEntry {
            id: SERVICE,
            generation: GENERATION,
            slots: slots.len() as u32,
            policy,
            affinity_seconds,
            near: BackendId(slots.first().map_or(0, |(backend, ..)| *backend)),
            flags: ServiceFlags::default(),
        };
        self.tables().services.write(&[(vip(), entry)]).unwrap();
    }

    fn backend(&self, id: u32, weight: u32, accepts: bool) {
        self.backend_of(SERVICE, id, weight, accepts);
    }

    fn backend_of(&self, service: ServiceId, id: u32, weight: u32, accepts: bool) {
        let entry = BackendEntry {
            address: format!("10.1.0.{id}:{}", 8000 + id).parse().unwrap(),
            service,
            weight,
            accepts,
        };
        self.tables()
            .backends
            .write(&[(BackendId(id), entry)])
            .unwrap();
    }

    fn load(&self, id: u32, open: u64) {
        let load = BackendLoad {
            open,
            total: open,
            srtt_us: 0,
        };
        self.tables().loads.write(&[(BackendId(id), load)]).unwrap();
    }

    fn cursor(&self) {
        self.tables().cursors.write(&[(SERVICE, 0)]).unwrap();
    }

    fn choose_for(&self, key: ServiceKey, client: u64) -> Answer {
        // struct choose_args of bpf/tests/choose.bpf.c
        let mut args = [0u8; 64];
        let std::net::IpAddr::V4(v4) = key.address else {
            panic!("IPv4 here")
        };
        args[..16].copy_from_slice(&v4.to_ipv6_mapped().octets());
        args[16..18].copy_from_slice(&key.port.to_be_bytes());
        args[18] = key.protocol.number();
        args[24..32].copy_from_slice(&client.to_ne_bytes());
        let program = self
            .object
            .progs_mut()
            .find(|p| p.name() == "weft_test_choose");
        let program = program.unwrap();
        let input = ProgramInput {
            context_in: Some(&mut args),
            ..Default::default()
        };
        program.test_run(input).unwrap();
        let word = |at: usize| u32::from_ne_bytes(args[at..at + 4].try_into().unwrap());
        match word(20) {
            0 => Answer::NoService,
            1 => {
                let id = word(36);
                assert_eq!(args[40..56][12..], [10, 1, 0, id as u8], "address of {id}");
                assert_eq!(
                    args[56..58],
                    (8000 + id as u16).to_be_bytes(),
                    "port of {id}"
                );
                Answer::Backend(id)
            }
            2 => Answer::NoBackend,
            _ => Answer::Proxied,
        }
    }

    fn choose(&self, client: u64) -> Answer {
        self.choose_for(vip(), client)
    }

    fn counts(&self, rounds: u64) -> BTreeMap<Answer, u64> {
        let mut counts = BTreeMap::new();
        for client in 0..rounds {
            *counts.entry(self.choose(client)).or_default() += 1;
        }
        counts
    }
}

fn vip() -> ServiceKey {
    ServiceKey {
        address: "10.96.0.1".parse().unwrap(),
        port: 80,
        protocol: Protocol::Tcp,
        side: weft_proto::model::Side::Inside,
    }
}

const ALWAYS: u32 = u32::MAX;

#[test]
fn an_unknown_address_is_no_service() {
    let kernel = Kernel::new();
    kernel.service(LbPolicy::Random, 0, &[(1, 1, ALWAYS)]);
    assert_eq!(kernel.choose(1), Answer::Backend(1));
    for other in [
        ServiceKey { port: 81, ..vip() },
        ServiceKey {
            protocol: Protocol::Udp,
            ..vip()
        },
        ServiceKey {
            address: "10.96.0.2".parse().unwrap(),
            ..vip()
        },
    ] {
        assert_eq!(kernel.choose_for(other, 1), Answer::NoService);
    }
}

#[test]
fn layer_7_is_left_to_envoy_but_for_namespaces_out_of_the_mesh() {
    let kernel = Kernel::new();
    kernel.service(LbPolicy::Random, 0, &[(1, 1, ALWAYS)]);
    let mut entry = kernel.tables().services.get(&vip()).unwrap().unwrap();
    entry.flags = SERVICE_LAYER7;
    kernel.tables().services.write(&[(vip(), entry)]).unwrap();
    let (inside, out) = (70, 71);
    let mut outsiders = kernel.outsiders();
    outsiders.write(&[(NetnsCookie(out), 1)]).unwrap();
    assert_eq!(kernel.choose(inside), Answer::Proxied);
    assert_eq!(kernel.choose(out), Answer::Backend(1));
    outsiders.delete(&[NetnsCookie(out)]).unwrap();
    assert_eq!(kernel.choose(out), Answer::Proxied);
}

#[test]
fn a_service_without_slots_refuses() {
    let kernel = Kernel::new();
    kernel.service(LbPolicy::Random, 0, &[]);
    assert_eq!(kernel.choose(1), Answer::NoBackend);
}

#[test]
fn a_backend_that_is_gone_is_not_chosen() {
    let kernel = Kernel::new();
    kernel.service(LbPolicy::Random, 0, &[(1, 1, ALWAYS)]);
    kernel.tables().backends.delete(&[BackendId(1)]).unwrap();
    assert_eq!(kernel.choose(1), Answer::NoBackend);
}

#[test]
fn slots_given_to_another_service_are_not_used() {
    let kernel = Kernel::new();
    kernel.service(LbPolicy::Random, 0, &[(1, 1, ALWAYS)]);
    kernel.backend_of(ServiceId(8), 1, 1, true);
    assert_eq!(kernel.choose(1), Answer::NoBackend);
}

#[test]
fn a_place_given_to_another_backend_is_not_used() {
    let kernel = Kernel::new();
    kernel.service(LbPolicy::Random, 0, &[(1, 1, ALWAYS)]);
    let mut tables = kernel.tables();
    let next = BackendId(1 + tables.backends.capacity() as u32);
    assert!(!tables.backends.is_free(&next));
    let entry = tables.backends.get(&BackendId(1)).unwrap().unwrap();
    let taken = tables.backends.write(&[(next, entry)]);
    assert!(
        matches!(taken, Err(WriteError::Full { written: 0, .. })),
        "{taken:?}"
    );
    tables.backends.delete(&[BackendId(1)]).unwrap();
    tables.backends.write(&[(next, entry)]).unwrap();
    assert_eq!(tables.backends.entries().unwrap(), [(next, entry)]);
    drop(tables);
    assert_eq!(kernel.choose(1), Answer::NoBackend);
}

#[test]
fn alias_slots_follow_their_thresholds() {
    let kernel = Kernel::new();
    // Backend 1 has 3/4 of the first slot, 2 the rest and all of the second.
    kernel.service(
        LbPolicy::Random,
        0,
        &[(1, 2, u32::MAX / 4 * 3), (2, 2, ALWAYS)],
    );
    let rounds = 40_000;
    let counts = kernel.counts(rounds);
    let share = counts[&Answer::Backend(1)] as f64 / rounds as f64;
    // Standard deviation 0.0024: six of them.
    assert!((share - 0.375).abs() < 0.015, "{share}");
    assert_eq!(counts.len(), 2);
}

#[test]
fn round_robin_takes_each_slot_in_turn() {
    let kernel = Kernel::new();
    kernel.cursor();
    kernel.service(
        LbPolicy::RoundRobin,
        0,
        &[
            (1, 1, ALWAYS),
            (2, 2, ALWAYS),
            (1, 1, ALWAYS),
            (3, 3, ALWAYS),
        ],
    );
    let answers: Vec<_> = (0..8).map(|client| kernel.choose(client)).collect();
    let turn = [1, 2, 1, 3].map(Answer::Backend);
    assert_eq!(answers, [turn, turn].concat());
}

#[test]
fn least_request_avoids_the_loaded_backend() {
    let kernel = Kernel::new();
    kernel.service(LbPolicy::LeastRequest, 0, &[(1, 1, ALWAYS), (2, 2, ALWAYS)]);
    kernel.load(1, 10);
    kernel.load(2, 0);
    let counts = kernel.counts(20_000);
    // Only when both picks are backend 1: a quarter.
    let share = counts[&Answer::Backend(1)] as f64 / 20_000.0;
    assert!((share - 0.25).abs() < 0.02, "{share}");
    // The same connections for ten times the weight are less load.
    kernel.backend(1, 100, true);
    kernel.load(2, 1);
    let counts = kernel.counts(20_000);
    let share = counts[&Answer::Backend(2)] as f64 / 20_000.0;
    assert!((share - 0.25).abs() < 0.02, "{share}");
}

#[test]
fn maglev_is_the_same_for_the_same_client() {
    let kernel = Kernel::new();
    let slots: Vec<_> = (0..251).map(|i| (i % 5 + 1, i % 5 + 1, ALWAYS)).collect();
    kernel.service(LbPolicy::Maglev, 0, &slots);
    let counts = kernel.counts(5_000);
    assert_eq!(counts.len(), 5);
    for (answer, count) in &counts {
        assert!((800..1200).contains(count), "{answer:?}: {count}");
    }
    for client in 0..200 {
        assert_eq!(kernel.choose(client), kernel.choose(client));
    }
}

#[test]
fn affinity_keeps_a_client_while_its_backend_accepts() {
    let kernel = Kernel::new();
    kernel.service(
        LbPolicy::Random,
        3600,
        &[(1, 1, ALWAYS), (2, 2, ALWAYS), (3, 3, ALWAYS)],
    );
    let Answer::Backend(first) = kernel.choose(42) else {
        panic!("a backend")
    };
    for _ in 0..100 {
        assert_eq!(kernel.choose(42), Answer::Backend(first));
    }
    let others: std::collections::BTreeSet<_> = (0..100).map(|c| kernel.choose(c)).collect();
    assert_eq!(others.len(), 3, "other clients have their own");

    kernel.backend(first, 1, false);
    let answers: std::collections::BTreeSet<_> = (0..64).map(|_| kernel.choose(42)).collect();
    assert!(answers.iter().any(|a| *a != Answer::Backend(first)));
}

#[test]
fn affinity_ends_after_its_time() {
    let kernel = Kernel::new();
    kernel.service(LbPolicy::Random, 1, &[(1, 1, ALWAYS), (2, 2, ALWAYS)]);
    // Each client that comes back late chooses anew: of 40, all staying by chance has probability 2^-40.
    let before: Vec<_> = (0..40).map(|c| kernel.choose(c)).collect();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let after: Vec<_> = (0..40).map(|c| kernel.choose(c)).collect();
    assert_ne!(before, after);
}
