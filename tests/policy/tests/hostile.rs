//! Hostile frames through both programs: nothing crashes, and nothing passes that the specifications refuse.
//!
//! `WEFT_SEED=N` begins with another seed, `WEFT_FRAMES=N` makes so many frames besides the corpus.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use weft_policy_test::connection::{Connection, Protocol};
use weft_policy_test::evaluate::{DefaultPolicy, Side, Verdict, View};
use weft_policy_test::generate::{NODE, Random};
use weft_policy_test::hostile::{Entry, Expectation, corpus, mutate};
use weft_policy_test::node::{Node, with_node};
use weft_policy_test::object::{Cluster, parse};
use weft_policy_test::packet::{Meaning, Tcp, first, flags, read};

const FRAMES: usize = 30_000;

/// Sender and receiver of the corpus, both of this node.
const PODS: &str = r"
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: default, name: sender}
spec: {nodeName: n1}
status: {podIPs: [{ip: 10.244.1.1}, {ip: 'fd00:244:1::1'}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: default, name: receiver}
spec: {nodeName: n1}
status: {podIPs: [{ip: 10.244.1.2}, {ip: 'fd00:244:1::2'}]}
";

/// Each lets something through and something not.
const POLICIES: [&str; 5] = [
    "",
    "{policyTypes: [Ingress, Egress]}",
    "{ingress: [{ports: [{port: 80}]}], egress: [{ports: [{port: 80}]}]}",
    "{ingress: [{ports: [{port: 1, endPort: 65535, protocol: UDP}]}], egress: [{to: [{ipBlock: {cidr: 'fd00::/8'}}]}]}",
    "{ingress: [{from: [{ipBlock: {cidr: 10.244.1.1/32}}], ports: [{protocol: SCTP}]}], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.244.1.2/32]}}]}]}",
];

fn world(spec: &str) -> Cluster {
    let mut documents = parse(PODS).unwrap();
    if !spec.is_empty() {
        let policy = format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: default}}\nspec: {spec}"
        );
        documents.extend(parse(&policy).unwrap());
    }
    documents.into_iter().collect()
}

const fn view(cluster: &Cluster) -> View<'_> {
    View {
        cluster,
        node: NODE,
        default: DefaultPolicy::Allow,
    }
}

/// Where the corpus' frames leave the sender, and where they reach the receiver.
fn interface(node: &Node, side: Side) -> u32 {
    let of = |address: &str| Connection {
        source: address.parse().unwrap(),
        destination: address.parse().unwrap(),
        protocol: Protocol::Tcp,
        source_port: 0,
        destination_port: 0,
    };
    let pod = match side {
        Side::Egress => "10.244.1.1",
        Side::Ingress => "10.244.1.2",
    };
    node.interface(side, &of(pod)).unwrap()
}

/// Whether the specifications let a frame through at the interface of the corpus' sender or receiver.
fn may_pass(view: View<'_>, side: Side, frame: &[u8]) -> bool {
    match read(frame) {
        Ok(Meaning::Link) => true,
        Ok(Meaning::Of(connection)) => {
            let end = match side {
                Side::Egress => connection.source,
                Side::Ingress => connection.destination,
            };
            let expected = match side {
                Side::Egress => ["10.244.1.1", "fd00:244:1::1"],
                Side::Ingress => ["10.244.1.2", "fd00:244:1::2"],
            };
            let is_pods = expected.iter().any(|a| end.to_string() == *a);
            // What is sent to a group is judged as any other destination, for each pod that it reaches.
            let group = side == Side::Ingress && is_group(end);
            let connection = match group {
                true => Connection {
                    destination: expected[usize::from(end.is_ipv6())].parse().unwrap(),
                    ..connection
                },
                false => connection,
            };
            let judgement = view.judge(side, &connection);
            (is_pods || group) && judgement.is_some_and(|j| j.verdict == Verdict::Allow)
        }
        // Nothing is remembered that they could belong to.
        Ok(Meaning::LaterFragment(..)) | Err(_) => false,
    }
}

fn is_group(address: std::net::IpAddr) -> bool {
    address.is_multicast() || address.to_string() == "255.255.255.255"
}

fn hex(frame: &[u8]) -> String {
    let bytes: Vec<String> = frame.iter().map(|b| format!("{b:02x}")).collect();
    bytes.chunks(16).map(|row| row.join(" ") + "\n").collect()
}

#[test]
fn the_corpus_meets_its_expectations() {
    with_node(DefaultPolicy::Allow, |node| {
        let mut wrong = Vec::new();
        for policy in POLICIES {
            let cluster = world(policy);
            node.apply(&cluster)?;
            for entry in corpus()? {
                for side in Side::BOTH {
                    let interface = interface(node, side);
                    let passes = node.kernel().run(side, interface, &entry.frame)?;
                    let expected = expected(&entry, side, view(&cluster));
                    if passes != expected {
                        wrong.push(format!(
                            "{side:?} of {}: passes {passes}, policy {policy:?}",
                            entry.name
                        ));
                    }
                    node.kernel().forget_all()?;
                }
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    })
    .unwrap();
}

fn expected(entry: &Entry, side: Side, view: View<'_>) -> bool {
    match (entry.expectation, side) {
        (Expectation::Pass, _) => true,
        (Expectation::Drop, _) | (Expectation::Spoofed, Side::Egress) => false,
        (Expectation::Policy | Expectation::Spoofed, _) => may_pass(view, side, &entry.frame),
    }
}

#[test]
fn nothing_passes_that_is_refused() {
    let seed = setting("WEFT_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let frames = setting("WEFT_FRAMES").map_or(FRAMES, |n| n as usize);
    eprintln!("WEFT_SEED={seed}");
    let corpus = corpus().unwrap();
    let (mut tried, mut passed) = (0, 0);
    with_node(DefaultPolicy::Allow, |node| {
        for (policy, number) in POLICIES.into_iter().zip(0..) {
            let cluster = world(policy);
            node.apply(&cluster)?;
            let mut random = Random::new(seed + number);
            let cut = corpus
                .iter()
                .flat_map(|e| (14..e.frame.len()).map(|n| e.frame[..n].to_vec()));
            let made = (0..frames / POLICIES.len()).map(|_| {
                let (one, other) = (random.pick(&corpus), random.pick(&corpus));
                mutate(&mut random, &one.frame, &other.frame)
            });
            for frame in cut.chain(made) {
                for side in Side::BOTH {
                    tried += 1;
                    passed += usize::from(try_one(node, view(&cluster), side, &frame)?);
                }
            }
        }
        Ok(())
    })
    .unwrap();
    eprintln!("{tried} hostile frames, {passed} of them let through as the specifications say");
}

/// Whether it passes; an error if it may not.
fn try_one(node: &mut Node, view: View<'_>, side: Side, frame: &[u8]) -> Result<bool> {
    let interface = interface(node, side);
    let passes = node.kernel().run(side, interface, frame)?;
    if passes {
        let policies = &view.cluster.network_policies;
        ensure!(
            may_pass(view, side, frame),
            "{side:?} lets this through, which is {:?}, with {policies:#?}\n{}",
            read(frame),
            hex(frame)
        );
        node.kernel().forget_all()?;
    }
    Ok(passes)
}

fn connection(protocol: Protocol, source_port: u16, destination_port: u16) -> Connection {
    Connection {
        source: "10.244.1.1".parse().unwrap(),
        destination: "10.244.1.2".parse().unwrap(),
        protocol,
        source_port,
        destination_port,
    }
}

#[test]
fn a_scan_finds_the_ports_that_are_open_and_no_others() {
    with_node(DefaultPolicy::Allow, |node| {
        node.apply(&world(POLICIES[2]))?;
        for flags in [flags::SYN, flags::ACK, flags::FIN | flags::ACK, flags::RST] {
            let mut open = Vec::new();
            for port in 0..=u16::MAX {
                let connection = connection(Protocol::Tcp, 40_000, port);
                let segment = Tcp {
                    flags,
                    sequence: 9,
                    acknowledgement: 9,
                };
                if node.pass(&connection, &segment.frame(&connection), true)? {
                    open.push(port);
                }
                if open.last() == Some(&port) {
                    node.kernel().forget(&connection)?;
                }
            }
            ensure!(open == [80], "flags {flags:#04x}: {open:?}");
        }
        let mut open = Vec::new();
        for port in 0..=u16::MAX {
            let connection = connection(Protocol::Udp, 40_000, port);
            if node.pass(&connection, &first(&connection), true)? {
                open.push(port);
            }
        }
        ensure!(open.is_empty(), "UDP: {open:?}");
        Ok(())
    })
    .unwrap();
}

/// More half-open and picked-up connections than there is room for leave an established one alone.
#[test]
fn floods_end_no_connection() {
    with_node(DefaultPolicy::Allow, |node| {
        node.apply(&world(POLICIES[2]))?;
        let established = connection(Protocol::Tcp, 39_999, 80);
        ensure!(node.pass(&established, &first(&established), true)?);
        let answer = weft_policy_test::packet::reply(&established);
        ensure!(node.pass(&established, &answer, false)?);
        ensure!(node.pass(&established, &Tcp::established().frame(&established), true)?);
        for flags in [flags::SYN, flags::ACK] {
            for port in 1..30_000 {
                let connection = connection(Protocol::Tcp, port, 80);
                let segment = Tcp {
                    flags,
                    sequence: 9,
                    acknowledgement: 9,
                };
                node.pass(&connection, &segment.frame(&connection), true)?;
            }
        }
        for (frame, from_source) in [
            (Tcp::established().frame(&established), true),
            (Tcp::answer().frame(&established.reversed()), false),
        ] {
            let passes = node.pass(&established, &frame, from_source)?;
            ensure!(passes, "it has to live: {from_source}");
        }
        Ok(())
    })
    .unwrap();
}

/// From all over the world, many times what `ct_pending` holds; `WEFT_SYNS` makes them more or fewer.
#[test]
fn a_flood_of_syns_ends_no_connection() {
    let syns = setting("WEFT_SYNS").unwrap_or(1_000_000);
    with_node(DefaultPolicy::Allow, |node| {
        node.apply(&world(""))?;
        let established = connection(Protocol::Tcp, 39_999, 80);
        ensure!(node.pass(&established, &first(&established), true)?);
        let answer = weft_policy_test::packet::reply(&established);
        ensure!(node.pass(&established, &answer, false)?);
        ensure!(node.pass(&established, &Tcp::established().frame(&established), true)?);
        let interface = interface(node, Side::Ingress);
        let mut passed = 0;
        for n in 0..u32::try_from(syns)? {
            let syn = Connection {
                // 198.18.0.0/15 (RFC 2544), each address with ports from 1024 on.
                source: Ipv4Addr::from_bits(0xc612_0000 + n % 0x2_0000).into(),
                source_port: u16::try_from(1024 + n / 0x2_0000)?,
                ..established.clone()
            };
            passed += u64::from(node.kernel().run(Side::Ingress, interface, &first(&syn))?);
        }
        ensure!(passed == syns, "{passed} of {syns} SYNs were let in");
        for (frame, from_source) in [
            (Tcp::established().frame(&established), true),
            (Tcp::answer().frame(&established.reversed()), false),
        ] {
            let passes = node.pass(&established, &frame, from_source)?;
            ensure!(passes, "it has to live: {from_source}");
        }
        Ok(())
    })
    .unwrap();
    eprintln!("{syns} SYNs, and the connection lives");
}

#[test]
fn no_pod_speaks_for_another() {
    with_node(DefaultPolicy::Allow, |node| {
        node.apply(&world(""))?;
        let interface = node
            .interface(Side::Egress, &connection(Protocol::Tcp, 1, 1))
            .context("the sender has an interface")?;
        for source in [
            "10.244.1.2",
            "10.244.1.3",
            "192.168.0.1",
            "127.0.0.1",
            "203.0.113.1",
            "0.0.0.0",
        ] {
            for protocol in Protocol::ALL {
                let spoofed = Connection {
                    source: source.parse()?,
                    ..connection(protocol, 1, 1)
                };
                let passes = node
                    .kernel()
                    .run(Side::Egress, interface, &first(&spoofed))?;
                ensure!(!passes, "{spoofed}");
            }
        }
        Ok(())
    })
    .unwrap();
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}
