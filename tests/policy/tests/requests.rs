//! The real Envoy answers requests as the specification of AuthorizationPolicy says: random clusters in, requests through its filters.
//!
//! `WEFT_SEED=N` begins with another seed, `WEFT_REQUESTS=N` compares so many answers.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::net::{IpAddr, SocketAddr};

use weft_lab::netns::Netns;
use weft_policy_test::connection::{Connection, Protocol};
use weft_policy_test::envoy::{Envoy, ask, guards};
use weft_policy_test::evaluate::{DefaultPolicy, View};
use weft_policy_test::generate::{NODE, Random, ask_about_requests, cluster, request};
use weft_policy_test::object::Cluster;

const REQUESTS: usize = 600;
/// With one Envoy.
const AT_A_TIME: usize = 150;
const PORTS: [u16; 3] = [80, 443, 8080];

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

struct Removed(Netns);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = self.0.remove();
    }
}

/// A namespace in which every address is the machine's own.
fn anywhere() -> Removed {
    let netns = Removed(Netns::create(format!("weft-requests-{}", std::process::id())).unwrap());
    let all =
        "route add local 0.0.0.0/0 dev lo table local\nroute add local ::/0 dev lo table local\n";
    netns.0.ip(all).unwrap();
    netns
        .0
        .sysctl(&[("net/ipv6/ip_nonlocal_bind", "1")])
        .unwrap();
    netns
}

#[test]
fn envoy_and_the_specification_agree() {
    let seed = setting("WEFT_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let wanted = setting("WEFT_REQUESTS").map_or(REQUESTS, |n| n as usize);
    eprintln!("WEFT_SEED={seed}");
    let netns = anywhere();
    let (mut asked, mut allowed, mut number) = (0, 0, seed << 16);
    while asked < wanted {
        let mut random = Random::new(number);
        number += 1;
        let mut cluster = cluster(&mut random);
        ask_about_requests(&mut random, &mut cluster);
        let counts = netns.0.run(|| compare(&mut random, &cluster)).unwrap();
        asked += counts.0;
        allowed += counts.1;
    }
    eprintln!("{asked} answers agree, {allowed} of them 200");
    assert!(
        allowed > asked / 20 && allowed < asked * 19 / 20,
        "{allowed} of {asked}: one-sided"
    );
}

/// Requests, and how many were let through.
fn compare(random: &mut Random, cluster: &Cluster) -> (usize, usize) {
    let guards = guards(cluster).unwrap();
    let pods: Vec<IpAddr> = guards
        .keys()
        .copied()
        .filter(|ip| cluster.pod_at(*ip).is_some())
        .collect();
    if pods.is_empty() {
        return (0, 0);
    }
    let _envoy = Envoy::start(&guards, &PORTS).unwrap();
    let view = View {
        cluster,
        node: NODE,
        default: DefaultPolicy::Allow,
    };
    let sources: Vec<IpAddr> = cluster
        .pods
        .iter()
        .flat_map(|pod| pod.status.pod_ips.iter().map(|ip| ip.ip))
        .chain(["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()])
        .collect();
    let mut allowed = 0;
    for _ in 0..AT_A_TIME {
        let destination = random.pick(&pods);
        let same: Vec<IpAddr> = sources
            .iter()
            .copied()
            .filter(|ip| ip.is_ipv4() == destination.is_ipv4())
            .collect();
        let connection = Connection {
            source: random.pick(&same),
            destination,
            protocol: Protocol::Tcp,
            source_port: 0,
            destination_port: random.pick(&PORTS),
        };
        let request = request(random);
        let expected = view.lets_request_in(&connection, &request).unwrap();
        let to = SocketAddr::new(destination, connection.destination_port);
        let status = ask(connection.source, to, &request).unwrap();
        let policies = || serde_json::to_string_pretty(&cluster.authorization_policies).unwrap();
        let wanted = if expected { 200 } else { 403 };
        assert_eq!(status, wanted, "{connection}: {request:?}\n{}", policies());
        allowed += usize::from(expected);
    }
    (AT_A_TIME, allowed)
}
