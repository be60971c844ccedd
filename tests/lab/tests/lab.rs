//! The lab tested by itself: without Weft, pods reach each other, and nothing is left behind.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use weft_lab::{
    GetOptions, Lab, LabError, LoadOptions, PodSpec, Result, ServeOptions, bpffs, cgroup, netns,
};

fn two_nodes() -> Result<Lab> {
    Lab::builder()
        .node("n1")
        .node("n2")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("near", "n1"))
        .pod(PodSpec::new("far", "n2"))
        .build()
}

/// What is left of a lab on the machine.
fn remains(name: &str) -> Vec<String> {
    let cgroups = cgroup::mount_point().unwrap_or_default();
    let mut found = Vec::new();
    for dir in [
        Path::new(netns::NETNS_DIR),
        Path::new("/run/weft-lab"),
        &cgroups,
    ] {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        found.extend(
            entries
                .map(|entry| entry.path().display().to_string())
                .filter(|path| path.contains(name)),
        );
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    found.extend(
        mounts
            .lines()
            .filter(|line| line.contains(name))
            .map(str::to_owned),
    );
    found
}

#[test]
fn pods_reach_each_other_over_both_protocols_and_families() -> Result<()> {
    let lab = two_nodes()?;
    let client = lab.pod("client")?;
    for name in ["near", "far"] {
        let server = lab.pod(name)?;
        let _process = server.serve(&ServeOptions::tcp(8080).and_udp(5353))?;
        let tcp = server
            .addresses()
            .sockets(8080)
            .map(|to| (to, GetOptions::tcp(1)));
        let udp = server
            .addresses()
            .sockets(5353)
            .map(|to| (to, GetOptions::udp(1)));
        let connected = server
            .addresses()
            .sockets(5353)
            .map(|to| (to, GetOptions::udp_connected(1)));
        for (to, options) in [tcp, udp, connected].concat() {
            let attempts = client.get(to, &options)?;
            let [attempt] = &attempts[..] else {
                panic!("one attempt expected, got {attempts:?}");
            };
            assert!(attempt.ok(), "{to} {options:?}: {attempt:?}");
            assert_eq!(attempt.server.as_deref(), Some(name));
            // No translation on the way: each side sees the other's own address.
            assert_eq!(attempt.seen_as.map(|seen| seen.ip()), own_ip(&client, to));
            if options.udp {
                assert_eq!(attempt.from, Some(to));
            }
            let has_peer = !options.udp || options.connected;
            assert_eq!(attempt.peer, has_peer.then_some(to));
        }
    }
    lab.close()
}

fn own_ip(pod: &weft_lab::Pod, to: SocketAddr) -> Option<std::net::IpAddr> {
    pod.addresses()
        .both()
        .into_iter()
        .find(|ip| ip.is_ipv4() == to.is_ipv4())
}

#[test]
fn nodes_and_pods_reach_each_other() -> Result<()> {
    let lab = two_nodes()?;
    let (n1, n2) = (lab.node("n1")?, lab.node("n2")?);
    let far = lab.pod("far")?;
    let _on_node = n2.serve(&ServeOptions::tcp(9000))?;
    let _in_pod = far.serve(&ServeOptions::tcp(8080))?;
    for to in n2.addresses().sockets(9000) {
        let from_pod = lab.pod("client")?.get(to, &GetOptions::default())?;
        assert_eq!(from_pod[0].server.as_deref(), Some("n2"), "{from_pod:?}");
    }
    for (node, to) in [&n1, &n2]
        .into_iter()
        .flat_map(|node| far.addresses().sockets(8080).map(|to| (node, to)))
    {
        let attempts = node.get(to, &GetOptions::default())?;
        let seen = attempts[0].seen_as.map(|seen| seen.ip());
        let own = node
            .addresses()
            .both()
            .into_iter()
            .find(|ip| ip.is_ipv4() == to.is_ipv4());
        assert_eq!(seen, own, "{attempts:?}");
    }
    lab.close()
}

#[test]
fn a_client_reports_refusal_silence_and_a_broken_connection() -> Result<()> {
    let lab = two_nodes()?;
    let (client, far) = (lab.pod("client")?, lab.pod("far")?);
    let refused = client.get(far.socket_v4(1), &GetOptions::default())?;
    assert_eq!(
        refused[0].errno.as_deref(),
        Some("ECONNREFUSED"),
        "{refused:?}"
    );

    let _silent = far.serve(&ServeOptions::tcp(8081).silent())?;
    let options = GetOptions::default().timeout(Duration::from_millis(200));
    let silent = client.get(far.socket_v6(8081), &options)?;
    assert_eq!(silent[0].errno.as_deref(), Some("TIMEOUT"), "{silent:?}");
    assert!(silent[0].elapsed_us >= 200_000, "{silent:?}");

    let mut server = far.serve(&ServeOptions::tcp(8080))?;
    let hold = client.hold(far.socket_v4(8080), false, Duration::from_secs(20))?;
    let untouched = client.hold(far.socket_v4(8082), false, Duration::from_millis(300));
    assert!(
        untouched.is_err(),
        "a refused connection must not count as held"
    );
    server.kill();
    let held = hold.finish()?;
    assert!(held.broken, "{held:?}");
    assert!(
        matches!(held.errno.as_deref(), Some("EOF" | "ECONNRESET")),
        "{held:?}"
    );
    lab.close()
}

#[test]
fn a_load_is_counted_and_logged() -> Result<()> {
    let lab = two_nodes()?;
    let (client, near) = (lab.pod("client")?, lab.pod("near")?);
    let _server = near.serve(&ServeOptions::tcp(8080))?;
    let options = LoadOptions {
        log: Some(lab.dir().join("landings")),
        ..LoadOptions::connects(50, Duration::from_secs(1))
    };
    let (summary, landings) = client
        .load(near.socket_v4(8080), &options)?
        .finish_with_log()?;
    assert_eq!(summary.failed, 0, "{summary:?}");
    assert!((30..=50).contains(&summary.requests), "{summary:?}");
    assert_eq!(summary.by_server["near"], summary.requests);
    assert_eq!(landings.len() as u64, summary.requests);
    assert!(
        landings
            .iter()
            .all(|landing| landing.begin_ns < landing.end_ns)
    );

    let keep = LoadOptions::requests(50, Duration::from_millis(500));
    let summary = client.load(near.socket_v6(8080), &keep)?.finish()?;
    assert_eq!((summary.failed, summary.connects), (0, 4), "{summary:?}");
    lab.close()
}

#[test]
fn pods_come_and_go_while_the_lab_runs() -> Result<()> {
    let lab = two_nodes()?;
    let late = lab.add_pod(PodSpec::new("late", "n2").label("app", "web"))?;
    let taken = lab.add_pod(PodSpec::new("late", "n1"));
    assert!(matches!(taken, Err(LabError::BadName { .. })), "{taken:?}");
    let server = late.serve(&ServeOptions::tcp(8080))?;
    let client = lab.pod("client")?;
    assert!(client.get(late.socket_v4(8080), &GetOptions::default())?[0].ok());

    lab.remove_pod("late")?;
    assert!(matches!(lab.pod("late"), Err(LabError::Unknown { .. })));
    let options = GetOptions::default().timeout(Duration::from_millis(300));
    assert!(!client.get(late.socket_v4(8080), &options)?[0].ok());
    drop(server);
    let again = lab.add_pod(PodSpec::new("again", "n2"))?;
    assert_eq!(
        again.addresses(),
        late.addresses(),
        "a free address is used again"
    );
    lab.close()
}

#[test]
fn a_lab_cannot_reach_the_machines_network() -> Result<()> {
    let lab = two_nodes()?;
    for address in ["198.51.100.7:80", "[2001:db8::7]:80"] {
        let to: SocketAddr = address.parse().expect("an address");
        let options = GetOptions::default().timeout(Duration::from_millis(300));
        let attempts = lab.pod("client")?.get(to, &options)?;
        assert!(!attempts[0].ok(), "{attempts:?}");
        let attempts = lab.node("n1")?.get(to, &options)?;
        assert_eq!(
            attempts[0].errno.as_deref(),
            Some("EINVAL"),
            "a blackhole: {attempts:?}"
        );
    }
    lab.close()
}

#[test]
fn closing_leaves_nothing() -> Result<()> {
    let lab = two_nodes()?;
    let name = lab.name().to_owned();
    let sleeper = lab.pod("far")?.command("sleep").arg("1000").spawn()?;
    let pin_dir = lab.node("n1")?.bpffs().join("sub");
    fs::create_dir(&pin_dir).map_err(|source| LabError::Io {
        action: "create",
        path: pin_dir,
        source,
    })?;
    assert!(bpffs::pins(lab.node("n1")?.bpffs())?.is_empty());
    assert!(
        remains(&name).len() >= 7,
        "the check itself must see a living lab"
    );
    lab.close()?;
    assert_eq!(remains(&name), Vec::<String>::new());
    drop(sleeper);
    Ok(())
}

#[test]
fn a_panic_leaves_nothing() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let died = std::thread::spawn(move || {
        let lab = two_nodes().unwrap();
        sender.send(lab.name().to_owned()).unwrap();
        let _sleeper = lab
            .pod("far")
            .unwrap()
            .command("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        panic!("on purpose");
    });
    let name = receiver.recv().expect("the lab's name");
    assert!(died.join().is_err());
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn the_next_lab_removes_what_a_killed_owner_left() -> Result<()> {
    let mut ended = Command::new("true").spawn().expect("true");
    ended.wait().expect("its end");
    // An owner that is gone, and one whose pid another process (this one) has got since.
    for owner in [
        format!("{} 1", ended.id()),
        format!("{} 1", std::process::id()),
    ] {
        let lab = two_nodes()?;
        let name = lab.name().to_owned();
        let mut sleeper = lab.pod("far")?.command("sleep").arg("1000").spawn()?;
        Lab::builder().build()?.close()?;
        assert!(!remains(&name).is_empty(), "a living owner's lab must stay");

        fs::write(lab.dir().join("owner"), owner).expect("the owner's file");
        std::mem::forget(lab);
        Lab::builder().build()?.close()?;
        assert_eq!(remains(&name), Vec::<String>::new());
        let end = sleeper.wait(Duration::from_secs(10))?;
        assert!(end.is_some(), "the lab's processes must end with it");
    }
    Ok(())
}

#[test]
fn a_process_that_hangs_is_killed_after_its_timeout() -> Result<()> {
    let lab = Lab::builder().build()?;
    let start = Instant::now();
    let result = lab
        .plain()
        .command("sleep")
        .arg("1000")
        .run(Duration::from_millis(200));
    assert!(
        matches!(result, Err(LabError::Timeout { .. })),
        "{result:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(10));
    lab.close()
}

#[test]
fn publishing_writes_one_file_for_each_object() -> Result<()> {
    let lab = Lab::builder()
        .node_in_zone("n1", "z1")
        .pod(
            PodSpec::new("web", "n1")
                .namespace("shop")
                .label("app", "web")
                .port("http", 8080),
        )
        .build()?;
    lab.publish()?;
    let read = |name: &str| {
        fs::read_to_string(lab.manifests().dir().join(name))
            .unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    assert!(read("namespace-shop.yaml").contains("kind: Namespace"));
    assert!(read("node-n1.yaml").contains("topology.kubernetes.io/zone: z1"));
    assert!(read("pod-web.yaml").contains("podIP: \"10.244.1.10\""));
    lab.close()
}

#[test]
fn a_lab_matches_the_manifests_it_is_built_from() -> Result<()> {
    let demo = weft_lab::tools::workspace().join("deploy/demo");
    let lab = Lab::builder().manifests(&demo)?.build()?;
    assert_eq!(lab.nodes().len(), 2);
    assert_eq!(lab.node("node-2")?.zone(), Some("west"));
    let web = lab.pod("web-3")?;
    assert_eq!((web.node(), web.namespace()), ("node-2", "shop"));
    assert_eq!(web.addresses().v4.to_string(), "10.244.2.11");
    assert!(lab.manifests().dir().join("services.yaml").exists());

    let second = lab.add_pod(PodSpec::new("second", "node-2").addresses(web.addresses()));
    assert!(
        matches!(second, Err(LabError::BadAddress { .. })),
        "{second:?}"
    );
    let elsewhere = lab.add_pod(PodSpec::new("elsewhere", "node-1").addresses(web.addresses()));
    assert!(
        matches!(elsewhere, Err(LabError::BadAddress { .. })),
        "{elsewhere:?}"
    );
    lab.close()
}
