//! Who answers, and whom both ends see.

use std::net::SocketAddr;

use serde_json::json;
use weft_e2e::Result;
use weft_e2e::mesh::PORT;
use weft_e2e::stats::{assert_even, by_server};
use weft_lab::probe::Attempt;
use weft_lab::{DualStack, GetOptions};

use super::site::{BACKENDS, BEHIND, OUTSIDE, Site, external};

fn kinds(count: u32) -> [GetOptions; 3] {
    [
        GetOptions::tcp(count),
        GetOptions::udp(count),
        GetOptions::udp_connected(count),
    ]
}

/// The client sees whom it asked for; a backend on the node that was asked sees the client, one on another that node.
fn assert_views(attempt: &Attempt, at: SocketAddr, client: DualStack, node: DualStack) {
    for seen in [attempt.peer, attempt.from].into_iter().flatten() {
        assert_eq!(seen, at, "{attempt:?}");
    }
    let expected = match attempt.server.as_deref() {
        Some("near") => client,
        _ => node,
    };
    let seen_as = attempt.seen_as.map(|a| a.ip());
    assert!(
        expected.both().into_iter().any(|ip| Some(ip) == seen_as),
        "{expected:?}: {attempt:?}"
    );
}

#[test]
fn every_protocol_and_family_spreads_over_all_nodes_backends() -> Result {
    let site = Site::start()?;
    site.service(&json!({}), &[], 3)?;
    let client = site.addresses_of(OUTSIDE)?;
    let node = site.addresses_of("n1")?;
    for at in site.node_ports("n1")? {
        for options in kinds(90) {
            let attempts = site.client()?.get(at, &options)?;
            assert_even(&by_server(&attempts), &BACKENDS);
            for attempt in &attempts {
                assert_views(attempt, at, client, node);
            }
        }
    }
    Ok(())
}

#[test]
fn large_messages_and_fragments_come_through() -> Result {
    let site = Site::start()?;
    site.service(&json!({}), &[], 3)?;
    for at in site.node_ports("n1")? {
        for options in [
            GetOptions::tcp(20).keep(),
            GetOptions::tcp(12),
            GetOptions::udp(12),
        ] {
            let options = options.size(20_000);
            let attempts = site.client()?.get(at, &options)?;
            assert!(attempts.iter().all(Attempt::ok), "{at}: {attempts:?}");
        }
    }
    Ok(())
}

#[test]
fn external_and_balancers_addresses_are_served_by_every_node() -> Result {
    let site = Site::start()?;
    let (own, balancer) = (external(1), external(2));
    site.service(&json!({"externalIPs": own}), &balancer, 3)?;
    for node in ["n1", "n2"] {
        for address in own.into_iter().chain(balancer) {
            site.route(address, node)?;
            let at = SocketAddr::new(address, PORT);
            for options in kinds(60) {
                let attempts = site.client()?.get(at, &options)?;
                assert_even(&by_server(&attempts), &BACKENDS);
            }
        }
    }
    Ok(())
}

/// A node that is a router of a narrow way has to tell client and backend, each in its own terms.
#[test]
fn path_mtu_discovery_reaches_both_ends() -> Result {
    let site = Site::start()?;
    site.service(&json!({}), &[], 3)?;
    site.narrow("n1", "n2")?;
    site.narrow("n1", OUTSIDE)?;
    let client = site.mesh.pod(BEHIND)?;
    for at in site.node_ports("n1")? {
        let attempts = client.get(at, &GetOptions::tcp(12).size(60_000))?;
        assert!(attempts.iter().all(Attempt::ok), "{at}: {attempts:?}");
        assert_eq!(by_server(&attempts).len(), BACKENDS.len());
    }
    Ok(())
}

/// A client may ask for many addresses from one port, and be sent to the same backend for all of them.
#[test]
fn one_port_of_a_client_reaches_many_services_of_one_backend() -> Result {
    const ADDRESSES: u8 = 12;
    let site = Site::start()?;
    let own: Vec<_> = (1..=ADDRESSES).flat_map(external).collect();
    site.service(&json!({"externalIPs": own}), &[], 3)?;
    for address in &own {
        site.route(*address, "n1")?;
        let at = SocketAddr::new(*address, PORT);
        let attempts = site
            .client()?
            .get(at, &GetOptions::udp(5).from_port(40_000))?;
        assert!(attempts.iter().all(Attempt::ok), "{at}: {attempts:?}");
    }
    Ok(())
}
