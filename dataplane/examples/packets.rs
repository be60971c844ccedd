//! What a packet of an established connection costs at a pod's interface, and what a sweep over many connections takes:
//!
//!     cargo run --release -p weft-dataplane --example packets [ROUNDS]
//!
//! Times are those that `BPF_PROG_TEST_RUN` reports. Each is the least of ROUNDS runs, as whatever else runs on the machine can only
//! add to it; those of sweeps are processor time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub
)]

#[path = "../tests/pod/bytes.rs"]
#[allow(dead_code)]
mod bytes;
#[path = "../tests/pod/node.rs"]
#[allow(dead_code)]
mod node;
#[path = "../tests/pod/packet.rs"]
#[allow(dead_code)]
mod packet;
#[path = "../tests/pod/skel.rs"]
mod skel;

use std::os::fd::AsFd;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput, ProgramMut};

use rustix::time::{ClockId, clock_gettime};

use bytes::words;
use node::{A, B, Node, context, on_a_node_with};
use packet::{Packet, tcp, udp};

const YARDSTICK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/weft-tests.bpf.o"));
const CONNECTIONS: u32 = 500_000;
const REPEAT: u32 = 1_000_000;

const CLIENT: &str = "10.1.0.1:40000";
const SERVER: &str = "10.1.0.2:80";

fn main() {
    let rounds = std::env::args().nth(1).map_or(10, |n| n.parse().unwrap());
    let resize = |open: &mut skel::OpenWeftSkel<'static>| {
        open.maps.ct.set_max_entries(2 * CONNECTIONS).unwrap();
    };
    on_a_node_with(resize, |node| {
        fill(node);
        open_connections(node);
        packets(node, rounds);
        sweeps(node, rounds);
    });
}

/// One of each kind, between two pods of this node.
fn open_connections(node: &Node) {
    node.between(A, B, &tcp(CLIENT, SERVER).syn(1000));
    node.between(B, A, &tcp(SERVER, CLIENT).syn(5000).ack(1001));
    node.between(A, B, &segment());
    let six = ("[fd00:1::1]:40000", "[fd00:1::2]:80");
    node.between(A, B, &tcp(six.0, six.1).syn(1000));
    node.between(B, A, &tcp(six.1, six.0).syn(5000).ack(1001));
    node.between(A, B, &segment6());
    node.between(A, B, &datagram());
    node.between(B, A, &udp("10.1.0.2:53", "10.1.0.1:5353", b""));
    node.between(A, B, &datagram());
}

/// An acknowledgment: data would be sent again with each repetition, which is looked into.
fn segment() -> Packet {
    tcp(CLIENT, SERVER).sequence(1001).ack(5001)
}

fn segment6() -> Packet {
    tcp("[fd00:1::1]:40000", "[fd00:1::2]:80")
        .sequence(1001)
        .ack(5001)
}

fn datagram() -> Packet {
    udp("10.1.0.1:5353", "10.1.0.2:53", &[0; 1000])
}

/// Other connections of pod A, to as many ports and addresses of another node.
fn fill(node: &Node) {
    const BATCH: usize = 10_000;
    const FAR: &str = "10.2.0.9:80";
    node.from(A, &tcp(CLIENT, FAR).syn(1000));
    node.to(A, &tcp(FAR, CLIENT).syn(5000).ack(1001));
    node.from(A, &tcp(CLIENT, FAR).sequence(1001).ack(5001));
    let ct = node.map("ct");
    let key = ct.keys().next().unwrap();
    let flow = ct.lookup(&key, MapFlags::ANY).unwrap().unwrap();
    let mut keys = Vec::new();
    for number in 0..CONNECTIONS {
        let mut key = bytes::mapped("10.1.0.1").to_vec();
        key.extend(bytes::mapped("10.2.0.9"));
        key.extend((number as u16).to_be_bytes());
        key.extend((80 + (number >> 16) as u16).to_be_bytes());
        key.extend([packet::TCP, 0, 0, 0]);
        keys.push(key);
    }
    for batch in keys.chunks(BATCH) {
        let values = flow.repeat(batch.len());
        ct.update_batch(
            &batch.concat(),
            &values,
            batch.len() as u32,
            MapFlags::ANY,
            MapFlags::ANY,
        )
        .unwrap();
    }
}

fn packets(node: &Node, rounds: u32) {
    let yardstick = load_yardstick(node);
    let frame = segment().frame();
    let mut nothing = Duration::MAX;
    let mut lookup = Duration::MAX;
    let programs = [&node.programs().weft_from_pod, &node.programs().weft_to_pod];
    let kinds = [
        ("TCP over IPv4", segment().frame()),
        ("TCP over IPv6", segment6().frame()),
        ("UDP over IPv4", datagram().frame()),
    ];
    let mut costs = vec![[Duration::MAX; 2]; kinds.len()];
    for _ in 0..rounds {
        // Side by side, so that they see the same machine.
        nothing = nothing.min(cost(
            &program(&yardstick, "weft_test_nothing"),
            A.interface,
            &frame,
        ));
        lookup = lookup.min(cost(
            &program(&yardstick, "weft_test_lookup"),
            A.interface,
            &frame,
        ));
        for ((_, frame), costs) in kinds.iter().zip(&mut costs) {
            for ((program, pod), best) in programs.iter().zip([A, B]).zip(costs) {
                *best = (*best).min(cost(program, pod.interface, frame));
            }
        }
    }
    let lookup = lookup.saturating_sub(nothing);
    println!(
        "{CONNECTIONS} connections; running an empty program, {nothing:?}, is taken off all of these:"
    );
    println!("  one look-up {lookup:?}");
    let told = |cost: Duration| {
        let cost = cost.saturating_sub(nothing);
        let multiple = cost.as_secs_f64() / lookup.as_secs_f64();
        format!("{cost:?} ({multiple:.1} look-ups)")
    };
    for ((kind, _), [from, to]) in kinds.iter().zip(costs) {
        println!(
            "  {kind}: from the pod {}, to the pod {}",
            told(from),
            told(to)
        );
    }
}

fn load_yardstick(node: &Node) -> Object {
    let mut open = ObjectBuilder::default().open_memory(YARDSTICK).unwrap();
    let ct = node.map("ct");
    for mut map in open.maps_mut() {
        if map.name() == "ct" {
            map.reuse_fd(ct.as_fd()).unwrap();
        }
    }
    open.load().unwrap()
}

fn program<'a>(object: &'a Object, name: &str) -> ProgramMut<'a> {
    object.progs_mut().find(|p| p.name() == name).unwrap()
}

fn cost(program: &ProgramMut<'_>, interface: u32, frame: &[u8]) -> Duration {
    let mut context = context(interface);
    let input = ProgramInput {
        context_in: Some(&mut context),
        data_in: Some(frame),
        repeat: REPEAT,
        ..Default::default()
    };
    program.test_run(input).unwrap().duration
}

fn sweeps(node: &Node, rounds: u32) {
    // Long enough for nothing to end meanwhile.
    let day = words(&[86400; 8]);
    let settings = node.map("ct_settings");
    settings.update(&words(&[0]), &day, MapFlags::ANY).unwrap();
    let mut quiet = Duration::MAX;
    let mut judging = Duration::MAX;
    for round in 0..rounds {
        quiet = quiet.min(sweep(node));
        node.epoch(2 + round);
        judging = judging.min(sweep(node));
    }
    println!(
        "sweep of {CONNECTIONS} connections: {quiet:?}; judging each again after a change of policy: {judging:?}"
    );
}

fn sweep(node: &Node) -> Duration {
    let begin = processor_time();
    let swept = node.sweep();
    let took = processor_time() - begin;
    assert!(swept.swept >= CONNECTIONS && swept.expired + swept.revoked == 0);
    took
}

/// The sweep runs on the thread that asks for it.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}
