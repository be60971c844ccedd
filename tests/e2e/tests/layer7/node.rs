//! Envoy on its node: seen in flows, killed, imitated, and gone without a trace.

use super::*;
use weft_e2e::http::{envoy_of, kill};

#[test]
fn flows_and_checks_name_envoy_and_layer_4_does_not_see_it() -> Result {
    let (mut mesh, _servers) = start(pods(), &SERVERS)?;
    services(&mesh)?;
    mesh.apply("route", &route(BOTH))?;
    let client = mesh.pod("client")?;
    wait_both(&client, &["/near", "/far"], 200)?;
    // A service without routes stays in the kernel.
    ensure!(curl(&client, &urls(1, "/direct")[0], &[])?.server() == "near");
    let weft = mesh.weft("n1")?;
    eventually(LONG, || {
        let flows: Vec<Value> = weft
            .cli(&["flows", "--last", "200", "-o", "json"])?
            .json_lines()?;
        let paths = |address: &str, path: &str| {
            // Not those that were refused before Envoy served.
            let open = |f: &&Value| f["event"] == "open" && f["path"] == path;
            let to = |f: &&Value| f["destination"]["address"] == address && open(f);
            flows.iter().filter(to).count()
        };
        let vip = weft_e2e::mesh::vips(3)[0].ip().to_string();
        ensure!(
            paths(&vip, "envoy") > 0 && paths(&vip, "kernel") == 0,
            "{flows:?}"
        );
        let near = client_of(&flows, "near");
        ensure!(
            near.contains("envoy") && near.contains("kernel"),
            "{near}: {flows:?}"
        );
        Ok(())
    })?;
    let check = weft.cli(&["check", "default/client", "default/web:80"])?;
    ensure!(check.stdout.contains("Envoy"), "{check:?}");
    Ok(())
}

/// The paths of flows from the client to a pod.
fn client_of(flows: &[Value], pod: &str) -> String {
    let of = |f: &&Value| f["destination"]["pod"] == pod && f["source"]["pod"] == "client";
    let paths = flows.iter().filter(of).filter_map(|f| f["path"].as_str());
    paths.collect::<Vec<_>>().join(" ")
}

#[test]
fn envoy_killed_layer_4_loses_nothing_and_layer_7_is_soon_back() -> Result {
    let (mut mesh, _servers) = start(pods(), &SERVERS)?;
    services(&mesh)?;
    mesh.apply("route", &route(ALL_TO_FAR))?;
    let client = mesh.pod("client")?;
    let url = &urls(3, "/x")[0];
    wait_status(&client, url, 200)?;
    // Plain layer 4, to a server of the probe's own protocol.
    let near = mesh.pod("near")?;
    let _plain = near.serve(&weft_lab::ServeOptions::tcp(9000))?;
    let load = stranger_load(&mesh, &near)?;
    sleep(Duration::from_millis(300));
    let envoy = envoy_of(&mut mesh, "n1")?;
    let killed = Instant::now();
    kill(envoy)?;
    let mut longest_refusal = 0.0_f64;
    let back = loop {
        let answer = curl(&client, url, &["--max-time", "2"])?;
        if answer.status == 200 && envoy_of(&mut mesh, "n1").is_ok_and(|now| now != envoy) {
            break killed.elapsed();
        }
        longest_refusal = longest_refusal.max(answer.took);
        ensure!(killed.elapsed() < LONG, "{answer:?}");
    };
    println!("whole again after {back:?}, longest refusal {longest_refusal} s");
    ensure!(longest_refusal < 1.5, "fails fast: {longest_refusal}");
    // Half a second on an idle machine.
    ensure!(back < Duration::from_secs(3), "{back:?}");
    let summary = load.finish()?;
    ensure!(summary.failed == 0 && summary.requests > 100, "{summary:?}");
    Ok(())
}

fn stranger_load(mesh: &Mesh, near: &Pod) -> Result<weft_lab::Load> {
    let options = LoadOptions::connects(100, Duration::from_secs(4));
    Ok(mesh.pod("stranger")?.load(near.socket_v4(9000), &options)?)
}

#[test]
fn a_pod_is_no_envoy_and_nothing_is_left_behind() -> Result {
    let (mut mesh, _servers) = start(pods(), &SERVERS)?;
    services(&mesh)?;
    mesh.apply("route", &route(ALL_TO_FAR))?;
    let client = mesh.pod("client")?;
    wait_status(&client, &urls(3, "/x")[0], 200)?;
    let node = mesh.lab.node("n1")?;
    let addresses = node.addresses();
    for url in [
        format!("http://{}:15001/", addresses.v4),
        format!("http://[{}]:15001/", addresses.v6),
        "http://127.0.0.1:15001/".to_owned(),
    ] {
        let answer = curl(&client, &url, &["--max-time", "3"])?;
        ensure!(answer.status == 0, "{url}: {answer:?}");
    }
    // With Envoy's mark on its own socket, which root may set in a pod: it means nothing outside.
    let script = "import socket,sys
s=socket.socket(); s.setsockopt(socket.SOL_SOCKET,36,0x5eed0001); s.settimeout(2)
s.connect((sys.argv[1],8080)); s.sendall(b'GET /m HTTP/1.0\\r\\n\\r\\n'); print(s.recv(99)[:12])";
    let deny = "  ingress: []\n  policyTypes: [Ingress]\n";
    mesh.apply("deny", &network_policy("deny", "near", deny))?;
    let near = mesh.pod("near")?.addresses().v4.to_string();
    eventually(LONG, || {
        let marked = client
            .command("/usr/bin/python3")
            .args(["-c", script, &near])
            .run(LONG)?;
        ensure!(!marked.status.success(), "{marked:?}");
        Ok(())
    })?;
    let envoy = envoy_of(&mut mesh, "n1")?;
    mesh.weft("n1")?.kill9();
    eventually(LONG, || {
        let state = std::fs::read_to_string(format!("/proc/{envoy}/stat")).unwrap_or_default();
        ensure!(
            state.is_empty() || state.contains(") Z"),
            "Envoy outlives its agent: {state}"
        );
        Ok(())
    })?;
    // Refused, not let through without its routes.
    let answer = curl(&client, &urls(3, "/x")[0], &["--max-time", "2"])?;
    ensure!(answer.status == 0, "{answer:?}");
    ensure!(early_demux(&node)? == "0", "the agent sets it");
    weft_lab::weft::cleanup(&node)?;
    ensure!(early_demux(&node)? == "1", "and cleanup puts it back");
    for words in [["rule", "show"], ["-6", "rule"]] {
        let rules = node.command("ip").args(words).run(LONG)?.success()?;
        ensure!(!rules.stdout.contains("5eed"), "{}", rules.stdout);
    }
    Ok(())
}

fn early_demux(node: &Node) -> Result<String> {
    let setting = node
        .command("cat")
        .arg("/proc/sys/net/ipv4/tcp_early_demux");
    Ok(setting.run(LONG)?.success()?.stdout.trim().to_owned())
}

#[test]
fn envoy_weighs_more_than_a_pod_or_as_its_user_wants() -> Result {
    for (more, wanted) in [(None, -5), (Some("0"), 0), (Some("7"), 7)] {
        let options = match more {
            Some(nice) => with_envoy().arg("--envoy-nice").arg(nice),
            None => with_envoy(),
        };
        let mut mesh = Mesh::start_with(pods(), &options)?;
        let envoy = envoy_of(&mut mesh, "n1")?;
        let nice = nice_values(envoy)?;
        ensure!(nice.len() > 2, "no workers: {nice:?}");
        ensure!(nice.iter().all(|n| *n == wanted), "{more:?}: {nice:?}");
        let agent = nice_values(mesh.weft("n1")?.process().pid())?;
        ensure!(agent.iter().all(|n| *n == 0), "the agent's: {agent:?}");
    }
    Ok(())
}

/// Of each thread, from proc_pid_stat(5).
fn nice_values(pid: impl std::fmt::Display) -> Result<Vec<i32>> {
    const NICE: usize = 19;
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    let stats =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    stats
        .map(|stat| {
            // After the name, which may have blanks in it and is the second.
            let fields = stat.rsplit_once(") ").context("a stat file")?.1;
            let nice = fields.split(' ').nth(NICE - 3).context("fields")?;
            Ok(nice.parse()?)
        })
        .collect()
}
