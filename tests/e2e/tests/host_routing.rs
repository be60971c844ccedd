//! Packets between pods of two nodes, past the nodes' own IP stacks: they do what they would have done there, and when others have a say
//! in netfilter they are left to it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::counters::counters_in;
use weft_e2e::mesh::TARGET;
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::netns::Netns;
use weft_lab::{GetOptions, Lab, Node, Output, PodSpec, Process, WeftOptions};

const NODES: [&str; 2] = ["n1", "n2"];
/// Many packets.
const LARGE: usize = 50_000;
/// Packets that other business of a node may have it forward meanwhile.
const FEW: u64 = 10;
/// What kube-proxy has, in the same words.
const INVALID: &[&str] = &["-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP"];

/// Pods `client` on n1 and `server` on n2, which serves.
fn start(args: &[&str]) -> Result<Mesh> {
    let lab = Lab::builder()
        .node("n1")
        .node("n2")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("server", "n2"));
    let options = args
        .iter()
        .fold(WeftOptions::default(), |o, arg| o.arg(*arg));
    let mut mesh = Mesh::start_with(lab, &options)?;
    mesh.serve(&["server"])?;
    Ok(mesh)
}

fn ways(mesh: &Mesh) -> Result<[SocketAddr; 2]> {
    let server = mesh.pod("server")?;
    Ok([server.socket_v4(TARGET), server.socket_v6(TARGET)])
}

fn ask(mesh: &Mesh, to: SocketAddr, options: &GetOptions) -> Result {
    let attempts = mesh.pod("client")?.get(to, options)?;
    ensure!(attempts.iter().all(|a| a.ok()), "{attempts:#?}");
    Ok(())
}

/// Packets that a node's stack has forwarded, of both families.
fn forwarded(node: &Netns) -> Result<u64> {
    let counters = counters_in(node)?;
    let of = |name: &'static str| counters.get(name).copied().context(name);
    Ok(of("Ip:ForwDatagrams")? + of("Ip6OutForwDatagrams")?)
}

/// What `work` has both nodes' stacks forward.
fn forwarding(mesh: &Mesh, work: impl FnOnce() -> Result) -> Result<[u64; 2]> {
    let now = || -> Result<[u64; 2]> {
        let of = |name| -> Result<u64> { forwarded(mesh.lab.node(name)?.netns()) };
        Ok([of("n1")?, of("n2")?])
    };
    let before = now()?;
    work()?;
    let after = now()?;
    Ok([after[0] - before[0], after[1] - before[1]])
}

fn routing(mesh: &Mesh, node: &str) -> Result<Value> {
    let status = mesh.status(node)?;
    let routing = status.get("hostRouting").cloned();
    routing.context("the status has no hostRouting")
}

fn wait_routed_by(mesh: &Mesh, node: &str, by: &str) -> Result {
    eventually(LONG, || {
        let now = routing(mesh, node)?;
        ensure!(now["by"] == by, "{now}");
        Ok(())
    })
}

/// New connections go past the stack once the agents have seen the pods' links.
fn wait_past_the_stack(mesh: &Mesh) -> Result {
    for to in ways(mesh)? {
        eventually(LONG, || {
            let once = || ask(mesh, to, &GetOptions::tcp(1).size(LARGE));
            let packets = forwarding(mesh, once)?;
            ensure!(packets.iter().all(|n| *n < FEW), "forwarded: {packets:?}");
            Ok(())
        })?;
    }
    Ok(())
}

fn iptables(node: &Node, family: &str, args: &[&str]) -> Result<Output> {
    let program = if family == "6" {
        "ip6tables"
    } else {
        "iptables"
    };
    let output = node.command(program).args(args).run(LONG)?;
    Ok(output.success()?)
}

fn forward_rule(mesh: &Mesh, what: &str, rule: &[&str]) -> Result {
    for name in NODES {
        for family in ["4", "6"] {
            let args = [&[what, "FORWARD"], rule].concat();
            iptables(&mesh.lab.node(name)?, family, &args)?;
        }
    }
    Ok(())
}

fn hops(mesh: &Mesh, pod: &str, args: &[&str]) -> Result<Process> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("peers/routing/hops.py");
    let command = mesh.pod(pod)?.command("python3").arg("-B").arg(script);
    Ok(command.args(args).spawn()?)
}

/// Hops that are left of `sent` at the server.
fn left(mesh: &Mesh, at: SocketAddr, sent: u32) -> Result<u32> {
    let (address, port) = (at.ip().to_string(), at.port().to_string());
    let mut receiver = hops(mesh, "server", &["receive", &address, &port])?;
    receiver.wait_for_line("listening", LONG)?;
    let mut sender = hops(
        mesh,
        "client",
        &["send", &address, &port, &sent.to_string()],
    )?;
    sender.finish(LONG)?.success()?;
    let told = receiver.finish(LONG)?.success()?.stdout;
    let left = told.lines().find_map(|line| line.strip_prefix("left "));
    Ok(left.context(told.clone())?.trim().parse()?)
}

#[test]
fn connections_go_past_the_stack_of_both_nodes() -> Result {
    let mesh = start(&[])?;
    for node in NODES {
        let now = routing(&mesh, node)?;
        assert_eq!(now["by"], "bpf", "{now}");
        assert_eq!(
            now["uplinks"][0]["name"],
            mesh.lab.node(node)?.uplink(),
            "{now}"
        );
    }
    wait_past_the_stack(&mesh)?;
    // What is too long for one packet, or has no connection, arrives as well.
    for to in ways(&mesh)? {
        ask(&mesh, to, &GetOptions::udp(20))?;
        ask(&mesh, to, &GetOptions::udp(1).size(5_000))?;
        ask(&mesh, to, &GetOptions::tcp(50))?;
    }
    Ok(())
}

#[test]
fn the_stack_carries_them_where_it_is_told_to() -> Result {
    let mesh = start(&["--host-routing", "stack"])?;
    for to in ways(&mesh)? {
        let once = || ask(&mesh, to, &GetOptions::tcp(1).size(LARGE));
        let packets = forwarding(&mesh, once)?;
        ensure!(packets.iter().all(|n| *n >= FEW), "forwarded: {packets:?}");
    }
    assert_eq!(routing(&mesh, "n1")?["by"], "stack");
    Ok(())
}

#[test]
fn each_node_is_a_hop() -> Result {
    for args in [&[][..], &["--host-routing", "stack"]] {
        let mesh = start(args)?;
        for (index, to) in ways(&mesh)?.into_iter().enumerate() {
            let port = 9000 + u16::try_from(index)?;
            let to = SocketAddr::new(to.ip(), port);
            assert_eq!(left(&mesh, to, 64)?, 62, "{args:?} {to}");
            // Nobody listens there: the node that gives up says so, and the server where it gets that far.
            let (address, port) = (to.ip().to_string(), to.port().to_string());
            for (hops_sent, told) in [("1", "No route to host"), ("2", "No route to host")] {
                let mut sender = hops(&mesh, "client", &["send", &address, &port, hops_sent])?;
                let said = sender.finish(LONG)?.success()?.stdout;
                ensure!(said.contains(told), "{args:?} {hops_sent} hops: {said}");
            }
            let mut sender = hops(&mesh, "client", &["send", &address, &port, "3"])?;
            let said = sender.finish(LONG)?.success()?.stdout;
            ensure!(said.contains("Connection refused"), "{args:?}: {said}");
        }
    }
    Ok(())
}

/// Half a connection looks INVALID to whoever tracks connections in the stack. Told to, Weft's programs carry all of it.
#[test]
fn nothing_looks_invalid_to_others() -> Result {
    let mesh = start(&["--host-routing", "bpf"])?;
    forward_rule(&mesh, "-A", INVALID)?;
    wait_past_the_stack(&mesh)?;
    for to in ways(&mesh)? {
        ask(&mesh, to, &GetOptions::tcp(50))?;
        ask(&mesh, to, &GetOptions::tcp(50).keep())?;
        ask(&mesh, to, &GetOptions::udp(20))?;
        ask(&mesh, to, &GetOptions::udp(1).size(5_000))?;
        // An ICMP error comes back: nobody listens there.
        let closed = SocketAddr::new(to.ip(), 9);
        let (address, port) = (closed.ip().to_string(), closed.port().to_string());
        let mut sender = hops(&mesh, "client", &["send", &address, &port, "64"])?;
        let said = sender.finish(LONG)?.success()?.stdout;
        ensure!(said.contains("Connection refused"), "{said}");
    }
    for name in NODES {
        for family in ["4", "6"] {
            let list = &["-L", "FORWARD", "-v", "-n", "-x"];
            let list = iptables(&mesh.lab.node(name)?, family, list)?.stdout;
            let rule = list.lines().find(|line| line.contains("INVALID"));
            let rule = rule.context("the rule is gone")?;
            let dropped = rule.split_whitespace().next();
            assert_eq!(dropped, Some("0"), "{name}: {list}");
        }
    }
    Ok(())
}

#[test]
fn others_who_have_a_say_are_asked() -> Result {
    let mesh = start(&[])?;
    wait_past_the_stack(&mesh)?;
    // A connection that lives through it all.
    let server = mesh.pod("server")?.socket_v4(TARGET);
    let living = mesh.pod("client")?.hold_busy(server, LONG)?;

    // What kube-proxy has hurts nobody.
    for name in NODES {
        let node = mesh.lab.node(name)?;
        iptables(&node, "4", &["-N", "KUBE-FORWARD"])?;
        iptables(&node, "4", &["-A", "FORWARD", "-j", "KUBE-FORWARD"])?;
    }
    wait_past_the_stack(&mesh)?;
    assert_eq!(routing(&mesh, "n1")?["by"], "bpf");

    let rule = ["-p", "tcp", "--dport", "9", "-j", "DROP"];
    forward_rule(&mesh, "-A", &rule)?;
    for name in NODES {
        wait_routed_by(&mesh, name, "stack")?;
        let now = routing(&mesh, name)?;
        let because = now["because"].as_str().unwrap_or_default();
        ensure!(because.contains("FORWARD"), "{now}");
    }
    for to in ways(&mesh)? {
        let once = || ask(&mesh, to, &GetOptions::tcp(1).size(LARGE));
        let packets = forwarding(&mesh, once)?;
        ensure!(packets.iter().all(|n| *n >= FEW), "forwarded: {packets:?}");
    }

    forward_rule(&mesh, "-D", &rule)?;
    for name in NODES {
        wait_routed_by(&mesh, name, "bpf")?;
    }
    // Of a network that nobody asks for.
    let policy = "src 192.0.2.0/24 dst 192.0.2.0/24 dir out tmpl src 192.0.2.1 dst 192.0.2.2 proto esp mode tunnel";
    for (what, by) in [("add", "stack"), ("delete", "bpf")] {
        let words = match what {
            "add" => policy,
            _ => policy.split(" tmpl").next().unwrap_or_default(),
        };
        mesh.lab
            .node("n1")?
            .netns()
            .ip(&format!("xfrm policy {what} {words}\n"))?;
        wait_routed_by(&mesh, "n1", by)?;
    }
    wait_past_the_stack(&mesh)?;
    let held = living.finish()?;
    ensure!(!held.broken, "{held:?}");
    Ok(())
}

#[test]
fn a_neighbour_with_another_address_is_found_again() -> Result {
    let mesh = start(&[])?;
    let (near, far) = (mesh.lab.node("n1")?, mesh.lab.node("n2")?);
    // The kernel asks again sooner than by default.
    for family in ["ipv4", "ipv6"] {
        let of = |what: &str| format!("net/{family}/neigh/{}/{what}", near.uplink());
        near.netns().sysctl(&[
            (&of("delay_first_probe_time"), "1"),
            (&of("base_reachable_time_ms"), "1000"),
        ])?;
    }
    near.netns()
        .ip(&format!("neigh flush dev {}\n", near.uplink()))?;
    wait_past_the_stack(&mesh)?;
    far.netns().ip(&format!(
        "link set dev {} address 02:5e:ed:00:00:77\n",
        far.uplink()
    ))?;
    for to in ways(&mesh)? {
        eventually(LONG, || ask(&mesh, to, &GetOptions::tcp(1)))?;
    }
    wait_past_the_stack(&mesh)
}
