//! Limits and outlier ejection in the kernel, run by `BPF_PROG_TEST_RUN` against tables that the test fills.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, ProgramInput};
use weft_dataplane::bpf::open_tables;
use weft_dataplane::tables::{
    BackendEntry, BackendHealth, BackendId, BackendLoad, Generation, ServiceEntry, ServiceId,
    ServiceKey, ServiceSettings, ServiceState, Slot, SlotKey, Tables,
};
use weft_proto::model::{LbPolicy, Protocol};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/weft-tests.bpf.o"));
const SERVICE: ServiceId = ServiceId(7);

// enum reason of bpf/include/abi/event.h
const NONE: u32 = 0;
const ESTABLISHED: u32 = 32;
const RESET: u32 = 33;
const CONNECTION_LIMIT: u32 = 49;
const RATE_LIMIT: u32 = 50;
const REFUSED: u32 = 52;

/// The programs alone.
struct Programs(RefCell<Object>);

impl Programs {
    fn load() -> Self {
        let open = ObjectBuilder::default().open_memory(OBJECT);
        let object = open.and_then(|open| open.load());
        let object = object.expect("loading needs root and BPF: run as root");
        Self(RefCell::new(object))
    }

    /// The same programs over the same maps, for another thread.
    fn sibling(&self) -> Self {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if !name.contains('.') {
                map.reuse_fd(self.map(&name).as_fd()).unwrap();
            }
        }
        Self(RefCell::new(open.load().unwrap()))
    }

    fn map(&self, name: &str) -> MapHandle {
        let object = self.0.borrow();
        let map = object.maps().find(|m| m.name() == name).unwrap();
        MapHandle::try_from(&map).unwrap()
    }

    fn run(&self, name: &str, args: &mut [u8]) {
        let object = self.0.borrow_mut();
        let program = object.progs_mut().find(|p| p.name() == name).unwrap();
        let input = ProgramInput {
            context_in: Some(args),
            ..Default::default()
        };
        program.test_run(input).unwrap();
    }

    fn words(&self, name: &str, words: [u32; 4]) -> [u32; 4] {
        let mut args: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        self.run(name, &mut args);
        let word = |at: usize| u32::from_ne_bytes(args[at * 4..at * 4 + 4].try_into().unwrap());
        [word(0), word(1), word(2), word(3)]
    }

    /// A connection, or with `has_end` false an unconnected UDP flow, wants in: the reason if it may not.
    fn admit(&self, has_end: bool) -> u32 {
        let [_, _, reason, held] = self.words("weft_test_admit", [SERVICE.0, has_end.into(), 0, 0]);
        assert_eq!(held != 0, has_end && reason == NONE);
        reason
    }

    fn leave(&self) {
        self.words("weft_test_leave", [SERVICE.0, 0, 0, 0]);
    }

    /// A connection to this backend ended so.
    fn outcome(&self, backend: u32, reason: u32) {
        self.words("weft_test_outcome", [SERVICE.0, backend, reason, 0]);
    }

    /// The backend chosen for this client.
    fn choose(&self, client: u64) -> u32 {
        // struct choose_args of bpf/tests/choose.bpf.c
        let mut args = [0u8; 64];
        args[..16].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 96, 0, 1]);
        args[16..18].copy_from_slice(&80u16.to_be_bytes());
        args[18] = Protocol::Tcp.number();
        args[24..32].copy_from_slice(&client.to_ne_bytes());
        self.run("weft_test_choose", &mut args);
        assert_eq!(args[20], 1, "a choice");
        u32::from_ne_bytes(args[36..40].try_into().unwrap())
    }
}

struct Kernel {
    programs: Programs,
    tables: Tables,
}

impl Kernel {
    fn new(settings: ServiceSettings) -> Self {
        let programs = Programs::load();
        let mut tables = open_tables(|name| Ok(programs.map(name))).unwrap();
        tables.settings.write(&[(SERVICE, settings)]).unwrap();
        let state = ServiceState::default();
        tables.states.write(&[(SERVICE, state)]).unwrap();
        Self { programs, tables }
    }

    /// With so many backends from 1 on, all of weight 1, chosen by `policy`.
    fn with_backends(policy: LbPolicy, affinity_seconds: u32, settings: ServiceSettings) -> Self {
        let mut kernel = Self::new(settings);
        let ids = || (1..=settings.backends).map(BackendId);
        for id in ids() {
            let entry = BackendEntry {
                address: format!("10.1.0.{}:80", id.0).parse().unwrap(),
                service: SERVICE,
                weight: 1,
                accepts: true,
            };
            kernel.tables.backends.write(&[(id, entry)]).unwrap();
            kernel.load(id.0, 0, 0);
        }
        let slots: Vec<_> = ids()
            .zip(0..)
            .map(|(backend, index)| {
                let key = SlotKey {
                    service: SERVICE,
                    generation: Generation(1),
                    index,
                };
                let slot = Slot {
                    backend,
                    alias: backend,
                    threshold: u32::MAX,
                };
                (key, slot)
            })
            .collect();
        kernel.tables.slots.write(&slots).unwrap();
        kernel.tables.cursors.write(&[(SERVICE, 0)]).unwrap();
        let key = ServiceKey {
            address: "10.96.0.1".parse().unwrap(),
            port: 80,
            protocol: Protocol::Tcp,
            side: weft_proto::model::Side::Inside,
        };
        let entry = ServiceEntry {
            id: SERVICE,
            generation: Generation(1),
            slots: settings.backends,
            policy,
            affinity_seconds,
            near: BackendId(1),
            flags: settings.flags(policy, false),
        };
        kernel.tables.services.write(&[(key, entry)]).unwrap();
        kernel
    }

    fn load(&mut self, id: u32, open: u64, srtt_us: u32) {
        let load = BackendLoad {
            open,
            total: open,
            srtt_us,
        };
        self.tables.loads.write(&[(BackendId(id), load)]).unwrap();
    }

    fn state(&self) -> ServiceState {
        self.tables.states.get(&SERVICE).unwrap().unwrap()
    }

    fn health(&self, id: u32) -> BackendHealth {
        let health = self.tables.health.get(&BackendId(id)).unwrap();
        health.unwrap_or_default()
    }

    fn fail(&self, id: u32, times: u32) {
        for _ in 0..times {
            self.programs.outcome(id, REFUSED);
        }
    }

    fn chosen(&self, times: u64) -> BTreeMap<u32, u64> {
        let mut counts = BTreeMap::new();
        for client in 0..times {
            *counts.entry(self.programs.choose(client)).or_default() += 1;
        }
        counts
    }
}

fn most(max_connections: u32) -> ServiceSettings {
    ServiceSettings {
        max_connections,
        ..Default::default()
    }
}

fn rate(connections_per_second: u32) -> ServiceSettings {
    ServiceSettings {
        connections_per_second,
        ..Default::default()
    }
}

/// Ejects after three failures, for 200 ms the first time.
fn outlier(backends: u32, max_ejected_percent: u32) -> ServiceSettings {
    ServiceSettings {
        consecutive_failures: 3,
        base_ejection_ms: 200,
        max_ejected_percent,
        backends,
        ..Default::default()
    }
}

#[test]
fn a_full_service_takes_one_more_for_each_that_ends() {
    let kernel = Kernel::new(most(3));
    for _ in 0..3 {
        assert_eq!(kernel.programs.admit(true), NONE);
    }
    assert_eq!(kernel.programs.admit(true), CONNECTION_LIMIT);
    assert_eq!(kernel.programs.admit(false), NONE, "no connection");
    kernel.programs.leave();
    assert_eq!(kernel.programs.admit(true), NONE);
    assert_eq!(kernel.programs.admit(true), CONNECTION_LIMIT);
    let state = kernel.state();
    assert_eq!((state.open, state.limited), (3, 2));
}

#[test]
fn the_limit_holds_when_all_come_at_once() {
    let kernel = Kernel::new(most(2));
    let (inside, worst) = (&AtomicU32::new(0), &AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            let programs = kernel.programs.sibling();
            scope.spawn(move || {
                for _ in 0..5_000 {
                    if programs.admit(true) == NONE {
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        worst.fetch_max(now, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        programs.leave();
                    }
                }
            });
        }
    });
    assert_eq!(kernel.state().open, 0);
    assert!(worst.load(Ordering::SeqCst) <= 2);
}

#[test]
fn a_bucket_holds_a_second_and_refills_at_its_rate() {
    let kernel = Kernel::new(rate(200));
    let burst = (0..1_000).filter(|_| kernel.programs.admit(true) == NONE);
    let began = Instant::now();
    let burst = burst.count() as f64;
    let refilled = 200.0 * began.elapsed().as_secs_f64();
    assert!((200.0..=202.0 + refilled).contains(&burst), "{burst}");
    // Where time passes quickly, a token or two have come again.
    let flows = (0..100).take_while(|_| kernel.programs.admit(false) == NONE);
    let flows = flows.count() as f64;
    thread::sleep(Duration::from_millis(500));
    let mut more = 0.0;
    let empty_at = loop {
        let asked_at = began.elapsed();
        let answer = kernel.programs.admit(true);
        if answer != NONE {
            assert_eq!(answer, RATE_LIMIT);
            break asked_at;
        }
        more += 1.0;
    };
    let taken = burst + flows + more - 200.0;
    let tokens = |time: Duration| 200.0 * time.as_secs_f64();
    let due = tokens(empty_at) - 3.0..=tokens(began.elapsed()) + 3.0;
    assert!(due.contains(&taken), "{taken} of {due:?}");
    let state = kernel.state();
    assert_eq!(state.open as f64, burst + more, "the refused left again");
    assert!(state.rate_limited > 0);
}

#[test]
fn a_refused_connection_takes_no_token() {
    let kernel = Kernel::new(ServiceSettings {
        max_connections: 1,
        ..rate(1)
    });
    assert_eq!(kernel.programs.admit(true), NONE);
    thread::sleep(Duration::from_millis(1_050));
    for _ in 0..10 {
        assert_eq!(kernel.programs.admit(true), CONNECTION_LIMIT);
    }
    kernel.programs.leave();
    assert_eq!(kernel.programs.admit(true), NONE);
}

#[test]
fn processors_share_a_bucket_without_losing_a_token() {
    const RATE: u32 = 5_000;
    let kernel = Kernel::new(rate(RATE));
    let siblings = [(); 4].map(|()| kernel.programs.sibling());
    let (granted, stop) = (&AtomicU32::new(0), &AtomicBool::new(false));
    let began = Instant::now();
    thread::scope(|scope| {
        for programs in siblings {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if programs.admit(false) == NONE {
                        granted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        thread::sleep(Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
    });
    let due = f64::from(RATE) * (1.0 + began.elapsed().as_secs_f64());
    let share = f64::from(granted.load(Ordering::SeqCst)) / due;
    assert!((0.98..=1.001).contains(&share), "{share} of what is due");
}

#[test]
fn a_backend_that_fails_in_a_row_is_passed_over_and_comes_back() {
    for policy in [
        LbPolicy::Random,
        LbPolicy::RoundRobin,
        LbPolicy::LeastRequest,
        LbPolicy::Maglev,
    ] {
        let kernel = Kernel::with_backends(policy, 0, outlier(3, 50));
        kernel.fail(2, 3);
        let began = Instant::now();
        let counts = kernel.chosen(300);
        if began.elapsed() < Duration::from_millis(190) {
            assert_eq!(counts.get(&2), None, "{policy:?}: {counts:?}");
            assert_eq!(counts.len(), 2, "{policy:?}: {counts:?}");
            assert_eq!(kernel.state().ejected, 1);
        }
        thread::sleep(Duration::from_millis(250));
        let counts = kernel.chosen(300);
        assert_eq!(counts.len(), 3, "{policy:?}: {counts:?}");
        let state = kernel.state();
        assert_eq!((state.ejected, state.ejections), (0, 1));
    }
}

#[test]
fn clients_bound_by_affinity_leave_an_ejected_backend() {
    let kernel = Kernel::with_backends(LbPolicy::Random, 3600, outlier(2, 50));
    let first = kernel.programs.choose(42);
    kernel.fail(first, 3);
    let second = kernel.programs.choose(42);
    assert_ne!(first, second);
    thread::sleep(Duration::from_millis(250));
    assert_eq!(kernel.programs.choose(42), second, "it has moved");
}

#[test]
fn only_failures_in_a_row_count() {
    let kernel = Kernel::with_backends(LbPolicy::Random, 0, outlier(2, 100));
    kernel.fail(1, 2);
    kernel.programs.outcome(1, ESTABLISHED);
    kernel.fail(1, 2);
    assert_eq!(kernel.health(1).failures, 2);
    // Established and then reset is no success.
    kernel.programs.outcome(1, NONE);
    for _ in 0..2 {
        kernel.programs.outcome(1, ESTABLISHED);
        kernel.programs.outcome(1, RESET);
    }
    assert_eq!(kernel.state().ejections, 0);
    kernel.programs.outcome(1, RESET);
    assert_eq!(kernel.state().ejections, 1);
    assert_eq!(kernel.health(2), BackendHealth::default());
}

#[test]
fn no_more_than_the_given_share_is_ejected_but_always_one() {
    let kernel = Kernel::with_backends(LbPolicy::Random, 0, outlier(5, 50));
    for id in 1..=5 {
        kernel.fail(id, 3);
    }
    assert_eq!(kernel.state().ejected, 2);
    let kernel = Kernel::with_backends(LbPolicy::Random, 0, outlier(5, 10));
    for id in 1..=5 {
        kernel.fail(id, 3);
    }
    assert_eq!(kernel.state().ejected, 1);
}

#[test]
fn when_all_are_ejected_traffic_goes_on() {
    let kernel = Kernel::with_backends(LbPolicy::RoundRobin, 0, outlier(2, 100));
    kernel.fail(1, 3);
    kernel.fail(2, 3);
    assert_eq!(kernel.state().ejected, 2);
    assert_eq!(kernel.chosen(10).values().sum::<u64>(), 10);
}

#[test]
fn ejections_in_a_row_grow() {
    let kernel = Kernel::with_backends(LbPolicy::Random, 0, outlier(2, 50));
    kernel.fail(1, 3);
    let first = kernel.health(1);
    thread::sleep(Duration::from_millis(250));
    while kernel.programs.choose(0) != 1 {}
    kernel.fail(1, 3);
    let second = kernel.health(1);
    assert_eq!((first.ejections, second.ejections), (1, 2));
    let apart = Duration::from_nanos(second.ejected_until_ns - first.ejected_until_ns);
    // At least 50 ms passed before the second, of 400 ms, began.
    assert!(apart > Duration::from_millis(420), "{apart:?}");
}

#[test]
fn the_nearer_of_two_idle_backends_is_chosen() {
    let settings = ServiceSettings {
        backends: 2,
        ..Default::default()
    };
    let mut kernel = Kernel::with_backends(LbPolicy::LeastRequest, 0, settings);
    kernel.load(1, 0, 40_000);
    kernel.load(2, 0, 2_000);
    let share = |kernel: &Kernel, id| kernel.chosen(4_000)[&id] as f64 / 4_000.0;
    // Only when both picks are the same.
    assert!((share(&kernel, 1) - 0.25).abs() < 0.05);
    // Until it is so busy that the way makes up for it.
    kernel.load(2, 50, 2_000);
    assert!((share(&kernel, 2) - 0.25).abs() < 0.05);
    // What has not been measured is taken as it comes.
    kernel.load(2, 0, 0);
    assert!((share(&kernel, 1) - 0.5).abs() < 0.05);
}
