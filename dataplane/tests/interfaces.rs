//! Pods' interfaces are found, get their programs and lose them, in network namespaces.

mod support;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use support::bridge::Bridge;
use support::node::{Result, Search, hooks, within};
use weft_dataplane::bpf::{PodHook, cleanup};
use weft_lab::{Lab, PodSpec};

fn two_pods() -> Result<Lab> {
    Ok(Lab::builder()
        .node("n1")
        .pod(PodSpec::new("a", "n1"))
        .pod(PodSpec::new("b", "n1"))
        .build()?)
}

#[test]
fn host_routes_lead_to_each_pod_and_its_interface_gets_programs() -> Result {
    for hook in hooks() {
        let lab = two_pods()?;
        let search = Search::start(&lab, hook)?;
        search.want(&[("a", &lab.pod("a")?.addresses().both())], true);
        search.until_found(&lab.pod("a")?.addresses().both(), "veth0")?;
        assert_eq!(
            search.programs_on("veth0")?,
            ["weft_from_pod", "weft_to_pod"]
        );
        // Nobody has asked for this one.
        assert!(search.programs_on("veth1")?.is_empty());
        assert!(search.now().settled);
    }
    Ok(())
}

#[test]
fn an_interface_that_appears_is_found_and_one_that_goes_is_forgotten() -> Result {
    for hook in hooks() {
        let lab = two_pods()?;
        let search = Search::start(&lab, hook)?;
        // Named before it is wired up, as well as after.
        let late: [IpAddr; 2] = ["10.244.1.12".parse()?, "fd00:244:1::c".parse()?];
        search.want(&[("late", &late)], true);
        std::thread::sleep(Duration::from_millis(300));
        assert!(search.now().pods.is_empty());
        lab.add_pod(PodSpec::new("late", "n1"))?;
        search.until_found(&late, "veth2")?;
        assert_eq!(search.programs_on("veth2")?.len(), 2);

        lab.remove_pod("late")?;
        search.until(|now| now.pods.is_empty())?;
        search.until_pins(0)?;
        // The same address again, on another interface.
        lab.add_pod(PodSpec::new("late", "n1"))?;
        search.until_found(&late, "veth2")?;
        assert_eq!(search.programs_on("veth2")?.len(), 2);
    }
    Ok(())
}

#[test]
fn a_pod_that_is_not_named_any_more_loses_its_programs_but_only_once_all_are_known() -> Result {
    for hook in hooks() {
        let lab = two_pods()?;
        let search = Search::start(&lab, hook)?;
        let (a, b) = (
            lab.pod("a")?.addresses().both(),
            lab.pod("b")?.addresses().both(),
        );
        search.want(&[("a", &a), ("b", &b)], true);
        search.until_found(&a, "veth0")?;
        search.until_found(&b, "veth1")?;
        search.want(&[("a", &a)], true);
        search.until(|now| now.pods.len() == 2)?;
        assert!(search.programs_on("veth1")?.is_empty());
        assert_eq!(search.programs_on("veth0")?.len(), 2);

        let again = search.restart(hook)?;
        again.want(&[], false);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(again.programs_on("veth0")?.len(), 2, "of an earlier agent");
        again.want(&[], true);
        again.until(|now| now.settled)?;
        again.until_programs("veth0", 0)?;
    }
    Ok(())
}

#[test]
fn a_restarted_agent_puts_its_programs_into_the_same_links() -> Result {
    if PodHook::of_this_kernel() != PodHook::Tcx {
        eprintln!("SKIPPED: this kernel has no tcx");
        return Ok(());
    }
    let lab = two_pods()?;
    let addresses = lab.pod("a")?.addresses().both();
    let first = Search::start(&lab, PodHook::Tcx)?;
    first.want(&[("a", &addresses)], true);
    first.until_found(&addresses, "veth0")?;
    let before = first.links()?;
    assert_eq!(before.len(), 2);

    let second = first.restart(PodHook::Tcx)?;
    assert_eq!(second.links()?, before, "pins outlive the agent");
    second.want(&[("a", &addresses)], true);
    second.until_found(&addresses, "veth0")?;
    let after = second.links()?;
    let ids = |links: &[(u32, u32)]| links.iter().map(|(id, _)| *id).collect::<BTreeSet<_>>();
    assert_eq!(ids(&after), ids(&before));
    for (old, new) in before.iter().zip(&after) {
        assert_ne!(old.1, new.1, "the new agent's program");
    }
    Ok(())
}

#[test]
fn programs_that_somebody_takes_off_are_put_back() -> Result {
    let lab = two_pods()?;
    let addresses = lab.pod("a")?.addresses().both();
    let search = Search::start(&lab, PodHook::Clsact)?;
    search.want(&[("a", &addresses)], true);
    search.until_found(&addresses, "veth0")?;
    search.tc("qdisc del dev veth0 clsact")?;
    assert!(search.programs_on("veth0")?.is_empty());
    search.until_programs("veth0", 2)
}

#[test]
fn a_bridge_is_followed_to_the_port_of_a_quiet_pod() -> Result {
    let lab = Lab::builder().node("n1").build()?;
    let bridge = Bridge::make(&lab, Some("10.50.0.1/24"), Some("fd00:50::1/64"))?;
    bridge.add_pod("p1", "10.50.0.11", "fd00:50::11")?;
    bridge.add_pod("p2", "10.50.0.12", "fd00:50::12")?;
    let search = Search::start(&lab, PodHook::of_this_kernel())?;
    let p1: [IpAddr; 2] = ["10.50.0.11".parse()?, "fd00:50::11".parse()?];
    let p2: [IpAddr; 2] = ["10.50.0.12".parse()?, "fd00:50::12".parse()?];
    search.want(&[("p1", &p1), ("p2", &p2)], true);
    search.until_found(&p1, "port-p1")?;
    search.until_found(&p2, "port-p2")?;
    assert!(search.programs_on("br0")?.is_empty());

    // What the kernel forgets of a quiet pod says nothing about the pod.
    bridge.forget_neighbours()?;
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(search.now().pods.len(), 4);
    bridge.remove_pod("p1")?;
    search.until(|now| now.pods.len() == 2)
}

#[test]
fn a_bridge_without_an_address_is_searched_from_the_pods_side() -> Result {
    let lab = Lab::builder().node("n1").build()?;
    let bridge = Bridge::make(&lab, None, None)?;
    bridge.add_pod("p1", "10.50.0.11", "fd00:50::11")?;
    let search = Search::start(&lab, PodHook::of_this_kernel())?;
    let p1: [IpAddr; 2] = ["10.50.0.11".parse()?, "fd00:50::11".parse()?];
    search.want(&[("p1", &p1)], true);
    search.until_found(&p1, "port-p1")
}

#[test]
fn the_uplink_is_nobodys_interface() -> Result {
    let lab = Lab::builder().node("n1").node("n2").build()?;
    let search = Search::start(&lab, PodHook::of_this_kernel())?;
    // One elsewhere, one on the uplink's own network, one of the node itself.
    let strays: [IpAddr; 3] = [
        "10.244.2.10".parse()?,
        "10.201.0.77".parse()?,
        "10.201.0.1".parse()?,
    ];
    search.want(&[("stray", &strays)], true);
    search.until(|now| now.settled)?;
    assert!(search.now().pods.is_empty());
    assert!(search.programs_on("eth0")?.is_empty());
    std::thread::sleep(Duration::from_secs(3));
    let reasons = search.reasons();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert!(reasons[0].contains("pod/default/stray"), "{reasons:?}");
    Ok(())
}

#[test]
fn addresses_of_the_node_are_known_as_they_come_and_go() -> Result {
    let lab = two_pods()?;
    let search = Search::start(&lab, PodHook::of_this_kernel())?;
    let has = |address: &str| {
        let address: IpAddr = address.parse().expect("address");
        search.until(move |now| now.host.contains(&address))
    };
    for address in ["127.0.0.1", "::1", "10.201.0.1", "fd00:201::1", "fe80::1"] {
        has(address)?;
    }
    let node = lab.node("n1")?;
    node.netns().ip("addr add 10.99.0.1/32 dev lo\n")?;
    has("10.99.0.1")?;
    node.netns().ip("addr del 10.99.0.1/32 dev lo\n")?;
    let gone: IpAddr = "10.99.0.1".parse()?;
    search.until(|now| !now.host.contains(&gone))
}

#[test]
fn cleanup_leaves_nothing_on_interfaces() -> Result {
    for hook in hooks() {
        let lab = two_pods()?;
        let addresses = lab.pod("a")?.addresses().both();
        let search = Search::start(&lab, hook)?;
        search.want(&[("a", &addresses)], true);
        search.until_found(&addresses, "veth0")?;
        let bpffs = lab.node("n1")?.bpffs().to_owned();
        drop(search);
        let removed = lab.node("n1")?.netns().run(|| cleanup(&bpffs))??;
        assert!(removed.links >= 2, "{removed:?}");
        let look = Search::start(&lab, hook)?;
        assert!(look.programs_on("veth0")?.is_empty());
        assert!(!look.tc("qdisc show dev veth0")?.contains("clsact"));
    }
    Ok(())
}

#[test]
fn a_pod_among_many_has_its_programs_within_a_second() -> Result {
    let mut builder = Lab::builder().node("n1");
    for number in 0..20 {
        builder = builder.pod(PodSpec::new(format!("p{number}"), "n1"));
    }
    let lab = builder.build()?;
    let search = Search::start(&lab, PodHook::of_this_kernel())?;
    let want = || {
        let pods = lab.pods();
        let pods = pods.iter().map(|pod| (pod.name(), pod.addresses().both()));
        let pods: Vec<(&str, [IpAddr; 2])> = pods.collect();
        let wanted: Vec<(&str, &[IpAddr])> = pods.iter().map(|(n, a)| (*n, &a[..])).collect();
        search.want(&wanted, true);
    };
    want();
    search.until(|now| now.pods.len() == 40)?;
    lab.add_pod(PodSpec::new("late", "n1"))?;
    let since = Instant::now();
    want();
    search.until(|now| now.pods.len() == 42)?;
    assert!(since.elapsed() < within(), "{:?}", since.elapsed());
    Ok(())
}
