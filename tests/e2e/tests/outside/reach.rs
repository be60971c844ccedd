//! Who answers, and whom both ends see.

use std::net::SocketAddr;

use serde_json::json;
use weft_e2e::Result;
use weft_e2e::stats::{assert_even, by_server};
use weft_lab::probe::Attempt;
use weft_lab::{DualStack, GetOptions};

use super::site::{BACKENDS, OUTSIDE, Site, service};

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
    site.mesh.service(&service(&json!({})), 3)?;
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
    site.mesh.service(&service(&json!({})), 3)?;
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
