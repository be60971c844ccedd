//! Packets that are too large for the way, through a policy: the routers' errors reach the sender, and fragments go where the
//! whole would have gone.

use std::time::Duration;

use anyhow::{Context, ensure};
use weft_e2e::counters::counters;
use weft_e2e::mesh::TARGET;
use weft_e2e::reach::{asks, settle};
use weft_e2e::town::{self, CLIENTS, FRIENDS_ONLY, SERVER, by_friend};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::{GetOptions, Pod, addr};

/// Of the way between the nodes; the pods' links have 1500.
const MTU: u32 = 1300;
/// Many packets.
const LARGE: usize = 20_000;

fn start() -> Result<Mesh> {
    let mesh = town::start()?;
    mesh.apply("policies", FRIENDS_ONLY)?;
    settle(&asks(&mesh, &CLIENTS, SERVER)?, by_friend)?;
    Ok(mesh)
}

/// Makes the way between the nodes narrower than their links, so that both nodes are routers that have to say so.
fn narrow(mesh: &Mesh) -> Result {
    for (name, peer) in [("n1", 2), ("n2", 1)] {
        let node = mesh.lab.node(name)?;
        let (v4, v6) = addr::pod_cidrs(peer);
        let (via, dev) = (addr::node(peer), node.uplink());
        node.netns().ip(&format!(
            "route change {v4} via {via4} dev {dev} mtu {MTU}\nroute change {v6} via {via6} dev {dev} mtu {MTU}\n",
            via4 = via.v4,
            via6 = via.v6,
        ))?;
    }
    Ok(())
}

/// ICMP errors that came in: IPv4's "fragmentation needed" among the unreachables, IPv6's "packet too big".
fn icmp_errors(pod: &Pod) -> Result<[u64; 2]> {
    let counters = counters(pod)?;
    let number = |name: &'static str| counters.get(name).copied().context(name);
    Ok([number("Icmp:InDestUnreachs")?, number("Icmp6InPktTooBigs")?])
}

#[test]
fn routers_errors_reach_both_ends() -> Result {
    let mesh = start()?;
    narrow(&mesh)?;
    let (friend, server) = (mesh.pod("friend-far")?, mesh.pod(SERVER)?);
    // Agents look at routes every two seconds, and what goes past the node's stack is as long as they let it be.
    for node in ["n1", "n2"] {
        eventually(LONG, || {
            let routing = &mesh.status(node)?["hostRouting"];
            ensure!(routing["uplinks"][0]["routedMtu"] == MTU, "{routing}");
            Ok(())
        })?;
    }
    let before = [icmp_errors(&friend)?, icmp_errors(&server)?];
    for to in [server.socket_v4(TARGET), server.socket_v6(TARGET)] {
        // The answer is as large as the request.
        let options = GetOptions::tcp(1).size(LARGE).timeout(LONG);
        let attempts = friend.get(to, &options)?;
        assert!(attempts[0].ok(), "{attempts:?}");
    }
    let after = [icmp_errors(&friend)?, icmp_errors(&server)?];
    for family in 0..2 {
        for end in 0..2 {
            let (was, is) = (before[end][family], after[end][family]);
            assert!(is > was, "end {end} was told nothing: {before:?} {after:?}");
        }
    }
    Ok(())
}

#[test]
fn fragments_go_where_the_whole_may_go() -> Result {
    let mesh = start()?;
    let server = mesh.pod(SERVER)?;
    for to in [server.socket_v4(TARGET), server.socket_v6(TARGET)] {
        for name in ["friend-near", "friend-far"] {
            let friend = mesh.pod(name)?;
            // A burst of fragments may be lost on a machine that is busy.
            eventually(LONG, || {
                let attempts = friend.get(to, &GetOptions::udp(1).size(LARGE))?;
                ensure!(attempts[0].ok(), "{name}: {attempts:?}");
                Ok(())
            })?;
        }
        for name in ["colleague-near", "impostor-far"] {
            let options = GetOptions::udp(3).size(LARGE);
            let options = options.timeout(Duration::from_millis(400));
            let attempts = mesh.pod(name)?.get(to, &options)?;
            assert!(attempts.iter().all(|a| !a.ok()), "{name}: {attempts:?}");
        }
    }
    Ok(())
}
