//! What rules may say, and what becomes of a connection when they change.

use super::*;

/// Status of a request from `pod` to near's own address.
fn status(mesh: &Mesh, pod: &str, path: &str, args: &[&str]) -> Result<u16> {
    let url = format!("http://{}{path}", mesh.pod("near")?.socket_v4(TARGET));
    let all = [&["--max-time", "3"], args].concat();
    Ok(curl(&mesh.pod(pod)?, &url, &all)?.status)
}

fn wait(mesh: &Mesh, pod: &str, path: &str, args: &[&str], wanted: u16) -> Result {
    eventually(LONG, || {
        let seen = status(mesh, pod, path, args)?;
        ensure!(
            seen == wanted,
            "{pod} {path} {args:?}: {seen}, {wanted} expected"
        );
        Ok(())
    })
}

#[test]
fn hosts_paths_headers_and_who_asks() -> Result {
    let (mesh, _servers) = mesh()?;
    mesh.apply(
        "policy",
        &policy(
            "several",
            "  rules:
  - from: [{source: {principals: [cluster.local/ns/default/sa/shopper]}}]
    to: [{operation: {paths: [/cart/*], methods: [GET, PUT]}}]
  - to: [{operation: {hosts: [Open.example]}}]
  - when: [{key: 'request.headers[X-Team]', values: ['blue*']}]
",
        ),
    )?;
    mesh.apply(
        "deny",
        &policy(
            "never",
            "  action: DENY\n  rules: [{to: [{operation: {paths: ['*/secret']}}]}]\n",
        ),
    )?;
    wait(&mesh, "client", "/cart/secret", &[], 403)?;
    wait(&mesh, "client", "/cart/1", &[], 200)?;
    for (pod, path, args, wanted) in [
        ("client", "/cart/1", &["-X", "PUT"][..], 200),
        ("client", "/cart/1", &["-X", "DELETE"], 403),
        ("client", "/other", &[], 403),
        ("stranger", "/cart/1", &[], 403),
        ("stranger", "/x", &["-H", "Host: OPEN.example"], 200),
        ("stranger", "/x", &["-H", "Host: open.example.org"], 403),
        ("stranger", "/x", &["-H", "x-team: blue-1"], 200),
        ("stranger", "/x", &["-H", "x-team: red"], 403),
        ("stranger", "/secret", &["-H", "x-team: blue"], 403),
    ] {
        let seen = status(&mesh, pod, path, args)?;
        ensure!(
            seen == wanted,
            "{pod} {path} {args:?}: {seen}, {wanted} expected"
        );
    }
    // The kernel goes on to refuse what it can tell.
    let nobody = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: no-strangers, namespace: default}
spec:
  podSelector: {matchLabels: {app: near}}
  ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]
";
    mesh.apply("network", nobody)?;
    wait(&mesh, "stranger", "/x", &["-H", "x-team: blue"], 0)?;
    wait(&mesh, "client", "/cart/1", &[], 200)?;
    let node = mesh.lab.node("n1")?;
    let denied = weft_lab::weft::cli(&node, &["flows", "--verdict", "denied", "-o", "json"])?;
    let denied: Vec<Value> = denied.success()?.json_lines()?;
    let by_kernel =
        |f: &Value| f["policy"] == "NetworkPolicy default/no-strangers" && f["request"].is_null();
    ensure!(denied.iter().any(by_kernel), "{denied:?}");
    Ok(())
}

/// One connection, kept open: curl asks once, waits until a file is there, and asks again.
const TWICE: &str = "import http.client,os,sys,time
c=http.client.HTTPConnection(sys.argv[1],int(sys.argv[2]),timeout=20)
def ask():
    c.request('GET','/x'); r=c.getresponse(); r.read(); return r.status
print(ask(),flush=True); own=c.sock.getsockname()
while not os.path.exists(sys.argv[3]): time.sleep(.02)
for _ in range(400):
    second=ask()
    if second!=200: break
    time.sleep(.02)
print(second, c.sock is not None and c.sock.getsockname()==own,flush=True)";

#[test]
fn a_rule_taken_back_holds_for_the_next_request_of_an_open_connection() -> Result {
    let (mesh, _servers) = mesh()?;
    let read = "  rules: [{to: [{operation: {methods: [GET]}}]}]\n";
    mesh.apply("policy", &policy("read", read))?;
    let client = mesh.pod("client")?;
    wait_all(&mesh, &client, "/x", &["-X", "POST"], 403)?;
    wait_all(&mesh, &client, "/x", &[], 200)?;
    let folder = tempfile::tempdir()?;
    for server in SERVERS {
        mesh.apply("policy", &policy("read", read))?;
        wait_all(&mesh, &client, "/x", &[], 200)?;
        let changed = folder.path().join(server);
        let socket = mesh.pod(server)?.socket_v4(TARGET);
        let mut asking = client
            .command("/usr/bin/python3")
            .args([
                "-c",
                TWICE,
                &socket.ip().to_string(),
                &socket.port().to_string(),
            ])
            .arg(&changed)
            .spawn()?;
        asking.wait_for_line("200", LONG)?;
        let post = "  rules: [{to: [{operation: {methods: [POST]}}]}]\n";
        mesh.apply("policy", &policy("read", post))?;
        std::fs::write(&changed, "")?;
        // The same connection, another answer.
        asking.wait_for_line("403 True", LONG)?;
    }
    Ok(())
}

/// A service with routes, whose backends have policies of their own: asked by the client's Envoy, then by the destination's.
#[test]
fn routes_do_not_lead_round_policies() -> Result {
    let (mesh, _servers) = mesh()?;
    mesh.service(&service("web", 3), 0)?;
    mesh.apply(
        "route",
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: web}]
  rules:
  - matches: [{path: {value: /near}}]
    backendRefs: [{name: near, port: 80}]
  - matches: [{path: {value: /far}}]
    backendRefs: [{name: far, port: 80}]
",
    )?;
    mesh.apply(
        "policy",
        &policy(
            "read",
            "  rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/shopper]}}], to: [{operation: {methods: [GET]}}]}]\n",
        ),
    )?;
    let client = mesh.pod("client")?;
    wait_all(&mesh, &client, "/x", &["-X", "POST"], 403)?;
    for (family, vip) in vips(3).into_iter().enumerate() {
        for server in SERVERS {
            let url = format!("http://{vip}/{server}");
            eventually(LONG, || {
                let read = curl(&client, &url, &[])?;
                ensure!(
                    read.status == 200 && read.server() == server,
                    "{url}: {read:?}"
                );
                let refused = curl(&client, &url, &["-X", "POST"])?;
                ensure!(refused.status == 403, "{url}: {refused:?}");
                let stranger = curl(&mesh.pod("stranger")?, &url, &[])?;
                ensure!(
                    stranger.status == 403 || stranger.status == 503,
                    "{url}: {stranger:?}"
                );
                Ok(())
            })?;
            let seen = curl(&client, &url, &[])?.seen()?;
            let own = client.addresses().both()[family].to_string();
            ensure!(seen["client"] == own, "{seen}");
        }
    }
    Ok(())
}
