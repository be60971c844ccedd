//! HTTP services with routes go through the node's Envoy: real Envoy, real clients, on one node and between nodes.

mod many;
mod node;
mod out_of_mesh;
mod protocols;
mod stats;

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::http::{Answer, curl, serve, service, start, urls, wait_status, with_envoy};
use weft_e2e::joined::Joined;
use weft_e2e::mesh::TARGET;
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{Lab, LabBuilder, LoadOptions, Node, Pod, PodSpec, WeftOptions};

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
  - matches: [{path: {value: '/re/[0-9]{1,64}', type: RegularExpression}}]
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
    let joined = Joined::start(pods(), WeftOptions::default(), &with_envoy())?;
    joined.apply("route", &route(BOTH))?;
    let _far = serve(&joined.lab, "far", TARGET)?;
    for url in urls(3, "/far") {
        wait_status(&joined.pod("client")?, &url, 200)?;
    }
    nothing_refused(&joined.node("n1")?)
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
