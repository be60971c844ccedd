//! What people see, what stays in the kernel, and what happens without Envoy.

use super::*;
use weft_e2e::http::{envoy_of, kill};

const READ_ON_8080: &str = "  rules: [{to: [{operation: {methods: [GET], ports: ['8080']}}]},
          {to: [{operation: {ports: ['9000']}}]}]\n";

/// Whether a server of the probe's own protocol answers there.
fn reaches(pod: &Pod, to: SocketAddr) -> Result<bool> {
    let once = GetOptions::tcp(1).timeout(Duration::from_secs(2));
    Ok(pod
        .get(to, &once)?
        .iter()
        .any(|attempt| attempt.server.is_some()))
}

/// Rows of a list that a verb prints as JSON, one a line.
fn lines(mesh: &mut Mesh, node: &str, words: &[&str]) -> Result<Vec<Value>> {
    let output = mesh.weft(node)?.cli(&[words, &["-o", "json"]].concat())?;
    Ok(output.success()?.json_lines()?)
}

#[test]
fn flows_check_and_policies_name_envoy_and_other_ports_stay_in_the_kernel() -> Result {
    let (mut mesh, _servers) = mesh()?;
    mesh.apply("policy", &policy("read", READ_ON_8080))?;
    mesh.serve_with(&["near"], &ServeOptions::tcp(9000))?;
    let client = mesh.pod("client")?;
    // What is asked before the policy is in the kernel is told as well, and not as Envoy's.
    eventually(LONG, || {
        let ask = ["check", "default/client", "default/near:8080"];
        let check = mesh.weft("n1")?.cli(&ask)?;
        ensure!(check.stdout.contains("via Envoy"), "{check:?}");
        Ok(())
    })?;
    wait_all(&mesh, &client, "/x", &["-X", "POST"], 403)?;
    wait_all(&mesh, &client, "/x", &[], 200)?;
    let near = mesh.pod("near")?;
    eventually(LONG, || {
        ensure!(reaches(&client, near.socket_v4(9000))?, "no answer");
        Ok(())
    })?;
    let own = client.addresses().v4.to_string();
    eventually(LONG, || {
        let flows = lines(&mut mesh, "n1", &["flows", "--last", "500"])?;
        let to_near =
            |f: &&Value| f["destination"]["pod"] == "near" && f["source"]["address"] == own;
        let paths = |port: u16| -> Vec<&str> {
            let of = flows.iter().filter(to_near);
            let of = of.filter(|f| f["destination"]["port"] == port && f["event"] == "open");
            of.filter_map(|f| f["path"].as_str()).collect()
        };
        let (web, other) = (paths(TARGET), paths(9000));
        ensure!(
            !web.is_empty() && web.iter().all(|path| *path == "envoy"),
            "{web:?}: {flows:?}"
        );
        ensure!(
            !other.is_empty() && other.iter().all(|path| *path == "kernel"),
            "{flows:?}"
        );
        let refused = flows
            .iter()
            .find(|f| to_near(f) && f["request"]["method"] == "POST");
        let refused = refused.context("no refusal is told")?;
        ensure!(
            refused["event"] == "denied" && refused["path"] == "envoy",
            "{refused}"
        );
        ensure!(
            refused["policy"] == "AuthorizationPolicy default/read",
            "{refused}"
        );
        ensure!(
            refused["request"]["path"] == "/x" && refused["request"]["status"] == 403,
            "{refused}"
        );
        Ok(())
    })?;
    let check = mesh
        .weft("n1")?
        .cli(&["check", "default/client", "default/near:8080"])?;
    ensure!(
        check.stdout.contains("via Envoy") && check.stdout.contains("default/read"),
        "{check:?}"
    );
    let check = mesh
        .weft("n1")?
        .cli(&["check", "default/client", "default/near:9000"])?;
    ensure!(
        check.stdout.contains("allowed") && !check.stdout.contains("Envoy"),
        "{check:?}"
    );
    let check = mesh
        .weft("n1")?
        .cli(&["check", "default/client", "default/near:22"])?;
    ensure!(check.stdout.contains("denied"), "{check:?}");
    let policies = mesh.weft("n1")?.cli(&["policies"])?;
    ensure!(policies.stdout.contains("envoy"), "{policies:?}");
    Ok(())
}

/// Nobody comes past an Envoy that is not there; when it is back, nothing is missing.
#[test]
fn envoy_killed_refuses_and_is_whole_again() -> Result {
    let (mut mesh, _servers) = mesh()?;
    mesh.apply("policy", &policy("read", READ_ON_8080))?;
    let client = mesh.pod("client")?;
    wait_all(&mesh, &client, "/x", &["-X", "POST"], 403)?;
    for node in ["n1", "n2"] {
        let before = envoy_of(&mut mesh, node)?;
        kill(before)?;
        let (mut asked, mut answered) = (0, false);
        eventually(LONG, || {
            for server in SERVERS {
                for url in ways(&mesh, server, "/x")? {
                    let answer = curl(&client, &url, &["-X", "POST", "--max-time", "1"])?;
                    ensure!(answer.status != 200, "came past Envoy: {url}: {answer:?}");
                    asked += 1;
                    answered |= answer.status == 403;
                }
            }
            ensure!(envoy_of(&mut mesh, node)? != before, "not back");
            Ok(())
        })?;
        ensure!(asked > 0 && answered);
        wait_all(&mesh, &client, "/x", &[], 200)?;
        wait_all(&mesh, &client, "/x", &["-X", "POST"], 403)?;
    }
    Ok(())
}

#[test]
fn without_envoy_what_depends_on_requests_is_refused_with_its_reason() -> Result {
    let mut mesh = Mesh::start(pods())?;
    mesh.serve_with(&["near", "far"], &ServeOptions::tcp(9000).and_tcp(TARGET))?;
    mesh.apply("policy", &policy("read", READ_ON_8080))?;
    let (client, near, far) = (mesh.pod("client")?, mesh.pod("near")?, mesh.pod("far")?);
    for (server, node) in [(&near, "n1"), (&far, "n2")] {
        eventually(LONG, || {
            ensure!(reaches(&client, server.socket_v4(9000))?, "no answer");
            ensure!(
                !reaches(&client, server.socket_v4(TARGET))?,
                "open without Envoy"
            );
            let denied = lines(&mut mesh, node, &["flows", "--verdict", "denied"])?;
            let told = |f: &Value| {
                f["reason"] == "layer7" && f["policy"] == "AuthorizationPolicy default/read"
            };
            ensure!(denied.iter().any(told), "{denied:?}");
            Ok(())
        })?;
    }
    let policies = mesh.weft("n1")?.cli(&["policies"])?;
    ensure!(policies.stdout.contains("no Envoy"), "{policies:?}");
    Ok(())
}
