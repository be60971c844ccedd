//! HTTP services with routes go through the node's Envoy: real Envoy, real clients, on one node and between nodes.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::http::{Answer, curl, service, start, urls, wait_status, with_envoy};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{Lab, LabBuilder, LoadOptions, Node, Pod, PodSpec, Weft, WeftOptions};

fn pods() -> LabBuilder {
    let server = |name: &str, node: &str, app: &str| PodSpec::new(name, node).label("app", app);
    Lab::builder()
        .node("n1")
        .node("n2")
        .pod(PodSpec::new("client", "n1").label("app", "client"))
        .pod(PodSpec::new("stranger", "n1").label("app", "stranger"))
        .pod(server("near", "n1", "near"))
        .pod(server("far", "n2", "far"))
}

const SERVERS: [&str; 2] = ["near", "far"];

/// Service web, whose routes send requests to near or far.
fn services(mesh: &Mesh) -> Result {
    mesh.service(&service("near", 1), 1)?;
    mesh.service(&service("far", 2), 1)?;
    mesh.service(&service("web", 3), 0)
}

fn route(rules: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: web, namespace: default}}
spec:
  parentRefs: [{{group: '', kind: Service, name: web}}]
  rules:
{rules}"
    )
}

#[test]
fn requests_go_where_the_path_says_and_backends_see_the_client() -> Result {
    let (mesh, _servers) = start(pods(), &SERVERS)?;
    services(&mesh)?;
    mesh.apply(
        "route",
        &route(
            "  - matches: [{path: {value: /near}}]
    backendRefs: [{name: near, port: 80}]
  - matches: [{path: {value: /far}}]
    backendRefs: [{name: far, port: 80}]
",
        ),
    )?;
    let client = mesh.pod("client")?;
    let own = client.addresses();
    for (family, address) in [own.v4.to_string(), own.v6.to_string()]
        .into_iter()
        .enumerate()
    {
        for server in SERVERS {
            let url = &urls(3, &format!("/{server}/x?q=1"))[family];
            let answer = wait_status(&client, url, 200)?;
            let seen = answer.seen()?;
            ensure!(seen["server"] == server, "{answer:?}");
            ensure!(seen["path"] == format!("/{server}/x?q=1"), "{answer:?}");
            ensure!(
                seen["client"] == address,
                "the client's own address is expected: {answer:?}"
            );
        }
        let nowhere = curl(&client, &urls(3, "/elsewhere")[family], &[])?;
        ensure!(nowhere.status == 404, "{nowhere:?}");
    }
    Ok(())
}

/// All of it to far, and what else a test wants.
const ALL_TO_FAR: &str = "  - backendRefs: [{name: far, port: 80}]
";

fn seen(answer: &Answer, pointer: &str) -> Result<String> {
    let seen = answer.seen()?;
    let value = seen.pointer(pointer).and_then(Value::as_str);
    Ok(value.unwrap_or_default().to_owned())
}

#[test]
fn weights_headers_rewrites_redirects_retries_and_timeouts() -> Result {
    let (mesh, _servers) = start(pods(), &SERVERS)?;
    services(&mesh)?;
    mesh.apply(
        "route",
        &route(
            "  - matches: [{path: {value: /split}}]
    backendRefs: [{name: near, port: 80, weight: 90}, {name: far, port: 80, weight: 10}]
  - matches: [{path: {value: /exact, type: Exact}, method: POST}]
    backendRefs: [{name: near, port: 80}]
  - matches: [{path: {value: '/re/[0-9]+', type: RegularExpression}}]
    backendRefs: [{name: near, port: 80}]
  - matches: [{headers: [{name: X-Canary, value: 'yes'}], queryParams: [{name: v, value: '2'}]}]
    backendRefs: [{name: far, port: 80}]
  - matches: [{path: {value: /old}}]
    filters:
    - {type: URLRewrite, urlRewrite: {hostname: new.example, path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}
    - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: '100%'}], add: [{name: X-Add, value: a}], remove: [X-Gone]}}
    - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: X-Answer, value: b}], remove: [X-From]}}
    backendRefs: [{name: near, port: 80}]
  - matches: [{path: {value: /moved}}]
    filters: [{type: RequestRedirect, requestRedirect: {hostname: there.example, statusCode: 301, path: {type: ReplaceFullPath, replaceFullPath: /new}}}]
  - matches: [{path: {value: /flaky}}]
    retry: {codes: [503], attempts: 3}
    backendRefs: [{name: near, port: 80}]
  - matches: [{path: {value: /slow}}]
    timeouts: {request: 300ms}
    backendRefs: [{name: near, port: 80}]
  - matches: [{path: {value: /half}}]
    backendRefs: [{name: near, port: 80}, {name: missing, port: 80}]
  - matches: [{path: {value: /none}}]
    backendRefs: [{name: missing, port: 80}]
",
        ),
    )?;
    let client = mesh.pod("client")?;
    let url = |path: &str| urls(3, path)[0].clone();
    wait_status(&client, &url("/split"), 200)?;

    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let many: Vec<String> = (0..200).map(|_| url("/split")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let output = client
        .command("curl")
        .args(["-sS", "-g"])
        .args(&many)
        .run(LONG)?
        .success()?;
    for name in SERVERS {
        let said = output
            .stdout
            .matches(&format!("\"server\": \"{name}\""))
            .count();
        counts.insert(name.to_owned(), u32::try_from(said)?);
    }
    ensure!(
        counts.values().sum::<u32>() == 200,
        "{counts:?}: {}",
        output.stdout
    );
    // 20 expected, with a standard deviation of 4.2.
    ensure!((4..=40).contains(&counts["far"]), "{counts:?}");

    let posted = curl(&client, &url("/exact"), &["-d", "hello"])?;
    ensure!(
        posted.server() == "near" && seen(&posted, "/body")? == "hello",
        "{posted:?}"
    );
    for path in ["/exact", "/exact/x", "/re/12x", "/splitter"] {
        let answer = curl(&client, &url(path), &[])?;
        ensure!(answer.status == 404, "{path}: {answer:?}");
    }
    ensure!(curl(&client, &url("/re/12"), &[])?.server() == "near");
    let canary = curl(&client, &url("/?v=2"), &["-H", "x-canary: yes"])?;
    ensure!(canary.server() == "far", "{canary:?}");
    ensure!(curl(&client, &url("/?v=3"), &["-H", "x-canary: yes"])?.status == 404);

    for (path, expected) in [("/old", "/"), ("/old/", "/"), ("/old/a/b?c=d", "/a/b?c=d")] {
        let answer = curl(&client, &url(path), &["-H", "X-Gone: 1", "-H", "X-Add: 0"])?;
        ensure!(seen(&answer, "/path")? == expected, "{answer:?}");
        ensure!(
            seen(&answer, "/headers/host")? == "new.example",
            "{answer:?}"
        );
        ensure!(seen(&answer, "/headers/x-set")? == "100%", "{answer:?}");
        ensure!(
            answer.seen()?["headers"].get("x-gone").is_none(),
            "{answer:?}"
        );
        ensure!(answer.header("x-answer") == Some("b"), "{answer:?}");
        ensure!(answer.header("x-from").is_none(), "{answer:?}");
    }
    let moved = curl(&client, &url("/moved/x"), &[])?;
    ensure!(moved.status == 301, "{moved:?}");
    ensure!(
        moved.header("location") == Some("http://there.example/new"),
        "{moved:?}"
    );
    let flaky = curl(&client, &url("/flaky"), &[])?;
    ensure!(
        flaky.status == 200,
        "two failures, three more attempts: {flaky:?}"
    );
    let slow = curl(&client, &url("/slow"), &[])?;
    ensure!(slow.status == 504 && slow.took < 1.5, "{slow:?}");

    let halves: Vec<u16> = (0..30)
        .map(|_| Ok(curl(&client, &url("/half"), &[])?.status))
        .collect::<Result<_>>()?;
    ensure!(halves.contains(&200) && halves.contains(&500), "{halves:?}");
    ensure!(halves.iter().all(|s| [200, 500].contains(s)), "{halves:?}");
    ensure!(curl(&client, &url("/none"), &[])?.status == 500);
    let status = mesh.status("n1")?.to_string();
    ensure!(status.contains("spec.rules[9].backendRefs[0]"), "{status}");
    ensure!(
        status.contains("Service default/missing does not exist"),
        "{status}"
    );
    nothing_refused(&mesh.lab.node("n1")?)
}

/// Envoy has taken all that it was sent.
fn nothing_refused(node: &Node) -> Result {
    let admin = node.run_dir().join("envoy/admin.sock");
    let curl = node
        .command("curl")
        .args(["-sS", "-g", "--unix-socket"])
        .arg(admin);
    let stats = curl.arg("http://envoy/stats?filter=update_").run(LONG)?;
    let stats = stats.success()?.stdout;
    let mut taken = 0;
    for line in stats.lines() {
        let (name, value) = line.rsplit_once(": ").context("a counter")?;
        if name.ends_with("update_rejected") {
            ensure!(value == "0", "{line}");
        } else if name.ends_with("update_success") {
            taken += value.parse::<u64>()?;
        }
    }
    ensure!(taken > 0, "{stats}");
    Ok(())
}

/// The control plane in a process and on a node of its own: Envoy reaches it through its agent.
#[test]
fn an_agent_relays_what_the_control_plane_has_for_envoy() -> Result {
    let lab = pods().build()?;
    lab.publish()?;
    for (name, index) in [("near", 1), ("far", 2), ("web", 3)] {
        lab.manifests()
            .write(&format!("service-{name}"), &service(name, index).yaml())?;
    }
    lab.manifests().write("route", &route(BOTH))?;
    let node = lab.node("n2")?;
    let _control = Weft::control(&node, lab.manifests(), 15010, WeftOptions::default())?;
    let address = format!("{}:15010", node.addresses().v4);
    let agents = lab
        .nodes()
        .iter()
        .map(|node| Weft::agent(node, &address, with_envoy()))
        .collect::<Result<Vec<_>, _>>()?;
    for agent in &agents {
        agent.wait_ready(LONG)?;
    }
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/http_server.py");
    let far = lab.pod("far")?.command("/usr/bin/python3").arg(script);
    let mut far = far.args(["far", "8080"]).spawn()?;
    far.wait_for_line("ready", LONG)?;
    for url in urls(3, "/far") {
        wait_status(&lab.pod("client")?, &url, 200)?;
    }
    nothing_refused(&lab.node("n1")?)
}

/// A copy comes from the node. The node is let in to its own pods whatever policies say; what pods have it send is not.
#[test]
fn mirrors_pass_no_policy_that_the_node_does_not() -> Result {
    let (mesh, _servers) = start(pods(), &SERVERS)?;
    services(&mesh)?;
    mesh.apply(
        "route",
        &route(
            "  - filters: [{type: RequestMirror, requestMirror: {backendRef: {name: near, port: 80}}}]
    backendRefs: [{name: far, port: 80}]
",
        ),
    )?;
    let client = mesh.pod("client")?;
    let url = &urls(3, "/copied")[0];
    wait_status(&client, url, 200)?;
    let seen = |path: &str| -> Result<Vec<String>> {
        let answer = curl(&client, &urls(1, "/log")[0], &[])?;
        let list = answer.seen()?["log"].clone();
        let list: Vec<String> = serde_json::from_value(list)?;
        Ok(list
            .into_iter()
            .filter(|line| line.contains(path))
            .collect())
    };
    eventually(LONG, || {
        let copies = seen("/copied")?;
        ensure!(!copies.is_empty(), "no copy came");
        Ok(())
    })?;
    let only_client = "  ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]\n";
    mesh.apply("in-near", &network_policy("in-near", "near", only_client))?;
    // Until the policy is in force: then the stranger is refused.
    let stranger = mesh.pod("stranger")?;
    let near = format!("http://{}/x", mesh.pod("near")?.socket_v4(8080));
    eventually(LONG, || {
        let answer = curl(&stranger, &near, &["--max-time", "1"])?;
        ensure!(answer.status == 0, "{answer:?}");
        Ok(())
    })?;
    sleep(Duration::from_secs(1));
    let late = &urls(3, "/late")[0];
    wait_status(&client, late, 200)?;
    sleep(Duration::from_millis(500));
    ensure!(
        seen("/late")?.is_empty(),
        "a copy got past the policy: {:?}",
        seen("/late")?
    );
    Ok(())
}

fn network_policy(name: &str, app: &str, spec: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  podSelector: {{matchLabels: {{app: {app}}}}}
{spec}"
    )
}

/// Waits until `pod` gets `status` at both servers' paths, over both families.
fn wait_both(pod: &Pod, paths: &[&str], status: u16) -> Result {
    for path in paths {
        for url in urls(3, path) {
            wait_status(pod, &url, status)?;
        }
    }
    Ok(())
}

const BOTH: &str = "  - matches: [{path: {value: /near}}]
    backendRefs: [{name: near, port: 80}]
  - matches: [{path: {value: /far}}]
    backendRefs: [{name: far, port: 80}]
";

#[test]
fn policies_judge_who_is_behind_envoy() -> Result {
    let (mesh, _servers) = start(pods(), &SERVERS)?;
    services(&mesh)?;
    mesh.apply("route", &route(BOTH))?;
    let (client, stranger) = (mesh.pod("client")?, mesh.pod("stranger")?);
    // Envoy keeps connections of both: none may serve the other, or outlive its permission.
    wait_both(&client, &["/near", "/far"], 200)?;
    wait_both(&stranger, &["/near", "/far"], 200)?;
    for server in SERVERS {
        let only_client = "  ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]\n";
        mesh.apply(
            &format!("in-{server}"),
            &network_policy(&format!("in-{server}"), server, only_client),
        )?;
    }
    wait_both(&stranger, &["/near", "/far"], 503)?;
    wait_both(&client, &["/near", "/far"], 200)?;
    // Whatever it says of itself.
    let spoofed = format!("X-Forwarded-For: {}", client.addresses().v4);
    for path in ["/near", "/far"] {
        let answer = curl(&stranger, &urls(3, path)[0], &["-H", &spoofed])?;
        ensure!(answer.status == 503, "{answer:?}");
    }
    // Egress of the client, to one of them only.
    let only_near = "  policyTypes: [Egress]
  egress: [{to: [{podSelector: {matchLabels: {app: near}}}]}]\n";
    mesh.apply("out", &network_policy("out", "client", only_near))?;
    wait_both(&client, &["/far"], 503)?;
    wait_both(&client, &["/near"], 200)?;
    let flows = mesh.lab.node("n1")?;
    let denied = weft_lab::weft::cli(&flows, &["flows", "--verdict", "denied", "-o", "json"])?;
    let told: Vec<Value> = denied.success()?.json_lines()?;
    let of_client = |flow: &&Value| {
        flow["source"]["pod"] == "client"
            && flow["destination"]["pod"] == "far"
            && flow["path"] == "envoy"
    };
    ensure!(told.iter().find(of_client).is_some(), "{told:?}");
    Ok(())
}

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

/// Process number of a node's Envoy, found by its agent.
fn envoy_of(mesh: &mut Mesh, node: &str) -> Result<i32> {
    let agent = mesh.weft(node)?.process().pid();
    let tasks = std::fs::read_dir(format!("/proc/{agent}/task"))?;
    for task in tasks {
        let children = std::fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            if name.starts_with("envoy") {
                return Ok(child.parse()?);
            }
        }
    }
    anyhow::bail!("no Envoy below {agent}")
}

fn kill(pid: i32) -> Result {
    let pid = rustix::process::Pid::from_raw(pid).context("a process number")?;
    Ok(rustix::process::kill_process(
        pid,
        rustix::process::Signal::KILL,
    )?)
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

/// Each version of HTTP goes on as it came, also to another node; upgraded connections stay open both ways.
#[test]
fn http2_grpc_and_websocket() -> Result {
    let (mesh, _servers) = start(pods(), &SERVERS)?;
    services(&mesh)?;
    let two = ServiceManifest::new("two")
        .cluster_ips(weft_e2e::mesh::vip_addresses(4))
        .port(ServicePort::tcp(80).named("h2").to(8081))
        .selector("app", "far");
    mesh.service(&two, 1)?;
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/h2_server.json");
    let envoy = mesh.pod("far")?.command(weft_e2e::http::envoy());
    let _h2 = envoy
        .args([
            "--disable-hot-restart",
            "--concurrency",
            "1",
            "-l",
            "error",
            "-c",
        ])
        .arg(&fixture)
        .spawn()?;
    mesh.apply(
        "route",
        "apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: web, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: web}]
  rules:
  - matches: [{method: {service: shop.v1.Cart, method: Add}}]
    backendRefs: [{name: two, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: web}]
  rules:
  - matches: [{path: {value: /two}}]
    backendRefs: [{name: two, port: 80}]
  - matches: [{path: {value: /socket}}]
    backendRefs: [{name: near, port: 80}]
",
    )?;
    let client = mesh.pod("client")?;
    for url in urls(3, "/two") {
        wait_status(&client, &url, 200)?;
        let one = curl(&client, &url, &["--http1.1"])?;
        ensure!(one.header("x-protocol") == Some("HTTP/1.1"), "{one:?}");
        let two = curl(&client, &url, &["--http2-prior-knowledge"])?;
        ensure!(two.header("x-protocol") == Some("HTTP/2"), "{two:?}");
        ensure!(two.head.starts_with("HTTP/2 200"), "{two:?}");
    }
    let call = |path: &str, message: &str| {
        let args = [
            "--http2-prior-knowledge",
            "-H",
            "content-type: application/grpc",
            "-H",
            "te: trailers",
            "--data-binary",
            message,
        ];
        curl(&client, &urls(3, path)[0], &args)
    };
    let add = call("/shop.v1.Cart/Add", "x")?;
    ensure!(add.header("grpc-status") == Some("0"), "{add:?}");
    ensure!(add.header("x-path") == Some("/shop.v1.Cart/Add"), "{add:?}");
    // No such method: 12 is UNIMPLEMENTED, which is what Envoy makes of 404 for a gRPC client.
    // Without a message: Envoy answers at once and resets the stream of a client that is still sending, which curl takes for an error.
    let unknown = call("/shop.v1.Cart/Remove", "")?;
    ensure!(unknown.header("grpc-status") == Some("12"), "{unknown:?}");
    for vip in weft_e2e::mesh::vips(3) {
        let socket = client.command("/usr/bin/python3").args(["-c", WEBSOCKET]);
        let said = socket.arg(vip.ip().to_string()).run(LONG)?.success()?;
        ensure!(
            said.stdout.contains("near:one") && said.stdout.contains("near:two"),
            "{said:?}"
        );
    }
    Ok(())
}

const WEBSOCKET: &str = "import socket,sys,time
s=socket.create_connection((sys.argv[1],80),5)
s.sendall(b'GET /socket HTTP/1.1\\r\\nHost: x\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n')
assert b' 101 ' in s.recv(4096)
for word in (b'one', b'two'):
    s.sendall(word); print(s.recv(4096).decode()); time.sleep(0.2)
";

fn early_demux(node: &Node) -> Result<String> {
    let setting = node
        .command("cat")
        .arg("/proc/sys/net/ipv4/tcp_early_demux");
    Ok(setting.run(LONG)?.success()?.stdout.trim().to_owned())
}
