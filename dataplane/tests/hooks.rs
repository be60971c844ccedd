//! The socket hooks under real sockets: a lab's node, with tables that the test fills instead of the agent.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags};
use weft_dataplane::bpf::{self, Counters, Loaded, MapSizes, PinDir};
use weft_dataplane::close::Closer;
use weft_dataplane::tables::{
    BackendEntry, BackendId, BackendLoad, Generation, ServiceEntry, ServiceFlags, ServiceId,
    ServiceKey, Slot, SlotKey, Tables,
};
use weft_lab::probe::Attempt;
use weft_lab::{GetOptions, Lab, Node, Pod, PodSpec, ServeOptions};
use weft_proto::model::{LbPolicy, Protocol};

const VIP4: &str = "10.96.0.10";
const VIP6: &str = "fd00:96::10";

struct Kernel {
    loaded: Loaded,
    tables: Tables,
    counters: Counters,
}

impl Kernel {
    fn new(node: &Node) -> Self {
        Self::sized(node, &MapSizes::new())
    }

    /// In which all connections at a time but one find their places taken.
    fn crowded(node: &Node) -> Self {
        Self::sized(node, &MapSizes::from([("connection_places".into(), 1)]))
    }

    fn sized(node: &Node, sizes: &MapSizes) -> Self {
        let pins = PinDir::create(node.bpffs()).unwrap();
        let mut loaded = bpf::load(&pins, sizes).unwrap();
        for attachment in bpf::attach(&mut loaded, node.cgroup()).unwrap() {
            assert_eq!(attachment.error, None, "{}", attachment.program);
        }
        Self {
            tables: loaded.tables().unwrap(),
            counters: loaded.counters().unwrap(),
            loaded,
        }
    }

    /// TCP connections that are remembered: in places of their own, and elsewhere.
    fn remembered(&self) -> (usize, usize) {
        let places = self.loaded.map("connection_places").unwrap();
        let value = |key: Vec<u8>| places.lookup(&key, MapFlags::ANY).unwrap().unwrap();
        let taken = |key: &Vec<u8>| value(key.clone()).iter().take(8).any(|byte| *byte != 0);
        let elsewhere = self.loaded.map("connections").unwrap().keys().count();
        let counted = self.loaded.map("displaced").unwrap();
        let counted = counted.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
        assert_eq!(counted, u64::try_from(elsewhere).unwrap().to_ne_bytes());
        (places.keys().filter(taken).count(), elsewhere)
    }

    /// A service of this id on VIP and port 80, in turn to these backends, whose ids start at 10 times the service's.
    fn service(&mut self, id: u32, vip: &str, protocol: Protocol, backends: &[SocketAddr]) {
        let service = ServiceId(id);
        let ids = (id * 10..).map(BackendId);
        for (backend, address) in ids.clone().zip(backends) {
            let entry = BackendEntry {
                address: *address,
                service,
                weight: 1,
                accepts: true,
            };
            self.tables.backends.write(&[(backend, entry)]).unwrap();
            self.tables
                .loads
                .write(&[(backend, BackendLoad::default())])
                .unwrap();
        }
        self.tables.cursors.write(&[(service, 0)]).unwrap();
        let slots: Vec<_> = ids
            .zip(backends)
            .zip(0..)
            .map(|((backend, _), index)| {
                let key = SlotKey {
                    service,
                    generation: Generation(1),
                    index,
                };
                (
                    key,
                    Slot {
                        backend,
                        alias: backend,
                        threshold: u32::MAX,
                    },
                )
            })
            .collect();
        self.tables.slots.write(&slots).unwrap();
        let entry = ServiceEntry {
            id: service,
            generation: Generation(1),
            slots: backends.len() as u32,
            policy: LbPolicy::RoundRobin,
            affinity_seconds: 0,
            near: BackendId(id * 10),
            flags: ServiceFlags::default(),
        };
        let key = ServiceKey {
            address: vip.parse().unwrap(),
            port: 80,
            protocol,
            side: weft_proto::model::Side::Inside,
        };
        self.tables.services.write(&[(key, entry)]).unwrap();
    }

    fn counter(&self, name: &str) -> u64 {
        self.counters
            .read()
            .into_iter()
            .find(|(n, _)| *n == name)
            .unwrap()
            .1
    }

    fn load(&self, backend: u32) -> BackendLoad {
        self.tables.loads.get(&BackendId(backend)).unwrap().unwrap()
    }
}

fn lab() -> Lab {
    Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("one", "n1"))
        .pod(PodSpec::new("two", "n1"))
        .build()
        .unwrap()
}

fn vip(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().unwrap(), 80)
}

fn servers(attempts: &[Attempt]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for attempt in attempts {
        assert!(attempt.ok(), "{attempt:?}");
        *counts
            .entry(attempt.server.as_deref().unwrap())
            .or_default() += 1;
    }
    counts
}

const BOTH: [(&str, usize); 2] = [("one", 4), ("two", 4)];

/// Addresses of a pod's port, in the family of the VIP.
fn address(pod: &Pod, vip: &str, port: u16) -> SocketAddr {
    if vip.contains(':') {
        pod.socket_v6(port)
    } else {
        pod.socket_v4(port)
    }
}

#[test]
fn tcp_and_udp_of_both_families_are_balanced_and_shown_as_the_service() {
    let lab = lab();
    let (client, one, two) = (
        lab.pod("client").unwrap(),
        lab.pod("one").unwrap(),
        lab.pod("two").unwrap(),
    );
    let _servers =
        [&one, &two].map(|pod| pod.serve(&ServeOptions::tcp(8080).and_udp(5353)).unwrap());
    let mut kernel = Kernel::new(&lab.nodes()[0]);
    for (id, address_of_vip) in [(1, VIP4), (2, VIP6)] {
        let backends = |port| [&one, &two].map(|pod| address(pod, address_of_vip, port));
        kernel.service(id, address_of_vip, Protocol::Tcp, &backends(8080));
        kernel.service(id + 2, address_of_vip, Protocol::Udp, &backends(5353));
        let to = vip(address_of_vip);

        let tcp = client.get(to, &GetOptions::tcp(8)).unwrap();
        assert_eq!(servers(&tcp), BOTH.into(), "{to} tcp");
        assert!(
            tcp.iter().all(|a| a.peer == Some(to)),
            "getpeername shows the service: {tcp:?}"
        );

        let connected = client.get(to, &GetOptions::udp_connected(8)).unwrap();
        assert_eq!(servers(&connected), BOTH.into(), "{to} connected udp");
        assert!(
            connected
                .iter()
                .all(|a| a.peer == Some(to) && a.from == Some(to)),
            "{connected:?}"
        );

        let unconnected = client.get(to, &GetOptions::udp(8)).unwrap();
        assert_eq!(servers(&unconnected), BOTH.into(), "{to} unconnected udp");
        assert!(
            unconnected.iter().all(|a| a.from == Some(to)),
            "{unconnected:?}"
        );

        let flow = client.get(to, &GetOptions::udp(8).keep()).unwrap();
        assert_eq!(
            servers(&flow).len(),
            1,
            "one socket's flow keeps its backend"
        );
    }
    // From the node itself.
    let host = lab.nodes()[0]
        .host()
        .get(vip(VIP4), &GetOptions::tcp(8))
        .unwrap();
    assert_eq!(servers(&host), BOTH.into());
    // A pod that reaches itself.
    let hairpin = one.get(vip(VIP4), &GetOptions::tcp(8)).unwrap();
    assert_eq!(servers(&hairpin), BOTH.into());
    assert_eq!(kernel.counter("choice_failures"), 0);
    assert_eq!(kernel.counter("refused"), 0);
}

#[test]
fn without_a_backend_it_refuses_at_once() {
    let lab = lab();
    let client = lab.pod("client").unwrap();
    let mut kernel = Kernel::new(&lab.nodes()[0]);
    for address in [VIP4, VIP6] {
        kernel.service(1, address, Protocol::Tcp, &[]);
        kernel.service(2, address, Protocol::Udp, &[]);
        for options in [
            GetOptions::tcp(1),
            GetOptions::udp(1),
            GetOptions::udp_connected(1),
        ] {
            let attempts = client.get(vip(address), &options).unwrap();
            assert_eq!(
                attempts[0].errno.as_deref(),
                Some("ECONNREFUSED"),
                "{options:?}"
            );
        }
    }
    assert_eq!(kernel.counter("refused"), 6);
}

#[test]
fn open_connections_are_counted_and_forgotten() {
    let lab = lab();
    count_and_forget(&lab, Kernel::new(&lab.nodes()[0]));
}

#[test]
fn so_they_are_where_their_places_are_taken() {
    let lab = lab();
    count_and_forget(&lab, Kernel::crowded(&lab.nodes()[0]));
}

fn count_and_forget(lab: &Lab, mut kernel: Kernel) {
    let (client, one) = (lab.pod("client").unwrap(), lab.pod("one").unwrap());
    let _server = one.serve(&ServeOptions::tcp(8080).and_udp(5353)).unwrap();
    kernel.service(1, VIP4, Protocol::Tcp, &[one.socket_v4(8080)]);
    kernel.service(2, VIP4, Protocol::Udp, &[one.socket_v4(5353)]);
    let tcp = client
        .hold(vip(VIP4), false, Duration::from_secs(60))
        .unwrap();
    let udp = client
        .hold(vip(VIP4), true, Duration::from_secs(60))
        .unwrap();
    let more = client
        .hold(vip(VIP4), false, Duration::from_secs(60))
        .unwrap();
    assert_eq!((kernel.load(10).open, kernel.load(20).open), (2, 1));
    let (placed, elsewhere) = kernel.remembered();
    assert_eq!(placed + elsewhere, 2);
    let places = kernel.loaded.map("connection_places").unwrap();
    assert_eq!(elsewhere, usize::from(places.max_entries() == 1));
    drop((tcp, udp, more));
    eventually("both ended", || {
        (kernel.load(10).open, kernel.load(20).open) == (0, 0)
    });
    client.get(vip(VIP4), &GetOptions::tcp(20)).unwrap();
    client
        .get(vip(VIP4), &GetOptions::udp_connected(20))
        .unwrap();
    eventually("all ended", || {
        (kernel.load(10).open, kernel.load(20).open) == (0, 0)
    });
    assert_eq!((kernel.load(10).total, kernel.load(20).total), (22, 21));
    // A backend that there is no route to: no SYN ever leaves.
    kernel.service(
        3,
        VIP6,
        Protocol::Tcp,
        &["[2001:db8::1]:80".parse().unwrap()],
    );
    let attempt = &client.get(vip(VIP6), &GetOptions::tcp(1)).unwrap()[0];
    assert!(!attempt.ok(), "{attempt:?}");
    assert_eq!(kernel.load(30).open, 0);
    eventually("nothing is remembered of connections that ended", || {
        kernel.remembered() == (0, 0)
    });
}

#[test]
fn connections_of_a_removed_backend_are_closed_and_no_others() {
    let lab = lab();
    close_those_of_the_removed(&lab, Kernel::new(&lab.nodes()[0]));
}

#[test]
fn they_are_found_where_their_places_are_taken() {
    let lab = lab();
    close_those_of_the_removed(&lab, Kernel::crowded(&lab.nodes()[0]));
}

fn close_those_of_the_removed(lab: &Lab, mut kernel: Kernel) {
    let (client, one, two) = (
        lab.pod("client").unwrap(),
        lab.pod("one").unwrap(),
        lab.pod("two").unwrap(),
    );
    let _servers =
        [&one, &two].map(|pod| pod.serve(&ServeOptions::tcp(8080).and_udp(5353)).unwrap());
    kernel.service(
        1,
        VIP4,
        Protocol::Tcp,
        &[one.socket_v4(8080), two.socket_v4(8080)],
    );
    kernel.service(
        2,
        VIP6,
        Protocol::Udp,
        &[one.socket_v6(5353), two.socket_v6(5353)],
    );
    kernel.service(
        3,
        VIP6,
        Protocol::Tcp,
        &[one.socket_v6(8080), two.socket_v6(8080)],
    );
    let closer: Closer = kernel.loaded.closer().unwrap();
    let longest = Duration::from_secs(4);
    let host = lab.nodes()[0].host();
    let mut holds = Vec::new();
    for _ in 0..2 {
        holds.push(client.hold(vip(VIP4), false, longest).unwrap());
        holds.push(client.hold(vip(VIP6), true, longest).unwrap());
        holds.push(client.hold(vip(VIP6), false, longest).unwrap());
    }
    for _ in 0..2 {
        holds.push(host.hold(vip(VIP4), false, longest).unwrap());
    }
    let direct = client.hold(one.socket_v4(8080), false, longest).unwrap();

    // The first of each service: pod "one".
    closer.close(vec![BackendId(10), BackendId(20), BackendId(30)]);
    let mut broken = 0;
    for hold in holds {
        let held = hold.finish().unwrap();
        let gone = held.first.server.as_deref() == Some("one");
        assert_eq!(held.broken, gone, "{held:?}");
        if gone {
            broken += 1;
            assert_eq!(held.errno.as_deref(), Some("ECONNABORTED"), "{held:?}");
            let after = Duration::from_nanos(held.broken_ns.unwrap() - held.since_ns);
            assert!(after < longest / 2, "closed at once, not after {after:?}");
        }
    }
    assert_eq!(broken, 4, "one of each pair");
    assert!(
        !direct.finish().unwrap().broken,
        "a connection that bypassed the service stays"
    );
    assert_eq!(closer.failures(), 0);
    assert_eq!(kernel.load(10).open, 0);
}

#[test]
fn a_second_agent_takes_over_maps_and_hooks() {
    let lab = lab();
    let (client, one) = (lab.pod("client").unwrap(), lab.pod("one").unwrap());
    let _server = one.serve(&ServeOptions::tcp(8080)).unwrap();
    let node = &lab.nodes()[0];
    let mut kernel = Kernel::new(node);
    kernel.service(1, VIP4, Protocol::Tcp, &[one.socket_v4(8080)]);
    drop(kernel);
    let serves =
        || servers(&client.get(vip(VIP4), &GetOptions::tcp(4)).unwrap()) == [("one", 4)].into();
    assert!(serves(), "nothing depends on the agent's process");

    let again = Kernel::new(node);
    assert_eq!(again.tables.services.entries().unwrap().len(), 1);
    assert!(serves());
    assert_eq!(
        again.load(10).total,
        8,
        "counted once: the programs were replaced, not added"
    );
    drop(again);

    let report = bpf::cleanup(node.bpffs()).unwrap();
    assert_eq!(report.links, 10, "{report:?}");
    let attempt = &client
        .get(
            vip(VIP4),
            &GetOptions::tcp(1).timeout(Duration::from_millis(500)),
        )
        .unwrap()[0];
    assert!(!attempt.ok(), "no longer translated: {attempt:?}");
    let empty = bpf::cleanup(node.bpffs()).unwrap();
    assert_eq!((empty.links, empty.maps), (0, 0), "nothing left to clean");
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < end, "not within 5 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
