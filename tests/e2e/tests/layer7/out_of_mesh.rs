//! Pods that are out of the mesh: nobody takes their connections to Envoy, so the kernel balances them.

use super::*;
use serde_json::json;

/// Whoever comes by Envoy is sent elsewhere.
const REDIRECT: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: near, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: near}]
  rules:
  - filters: [{type: RequestRedirect, requestRedirect: {hostname: there.example, statusCode: 301}}]
";
const ROUTED: u16 = 301;
const PLAIN: u16 = 200;

fn label(mesh: &Mesh, pod: &str, out: bool) -> Result {
    let mut manifest = mesh.pod(pod)?.manifest().value();
    if out {
        manifest["metadata"]["labels"]["weft.io/mesh"] = json!("disabled");
    }
    mesh.apply(&format!("pod-{pod}"), &manifest.to_string())
}

fn wait_answers(pod: &Pod, status: u16) -> Result {
    for url in urls(1, "/x") {
        let answer = wait_status(pod, &url, status)?;
        if status == PLAIN {
            let seen = answer.seen()?["client"].clone();
            let own = pod.addresses();
            ensure!(answer.server() == "near", "{answer:?}");
            ensure!(
                seen == own.v4.to_string() || seen == own.v6.to_string(),
                "{answer:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn who_is_out_reaches_a_service_with_routes_at_layer_4() -> Result {
    let (mut mesh, _servers) = start(pods(), &SERVERS)?;
    mesh.service(&service("near", 1), 1)?;
    mesh.apply("route", REDIRECT)?;
    let (client, stranger) = (mesh.pod("client")?, mesh.pod("stranger")?);
    wait_answers(&client, ROUTED)?;
    wait_answers(&stranger, ROUTED)?;

    label(&mesh, "client", true)?;
    wait_answers(&client, PLAIN)?;
    wait_answers(&stranger, ROUTED)?;
    let check = mesh.weft("n1")?;
    let said = check.cli_json(&["check", "default/client", "default/near:80"])?;
    ensure!(!said.to_string().contains("via Envoy"), "{said}");

    // The kernel goes on without the agent, and the next one takes over what it finds.
    mesh.weft("n1")?.kill9();
    wait_answers(&client, PLAIN)?;
    mesh.weft("n1")?.restart()?;
    for _ in 0..20 {
        for url in urls(1, "/x") {
            let answer = curl(&client, &url, &[])?;
            ensure!(answer.status == PLAIN, "{answer:?}");
        }
    }
    mesh.weft("n1")?.wait_ready(LONG)?;
    wait_answers(&client, PLAIN)?;
    wait_answers(&stranger, ROUTED)?;

    label(&mesh, "client", false)?;
    wait_answers(&client, ROUTED)?;
    label(&mesh, "stranger", true)?;
    wait_answers(&stranger, PLAIN)?;
    wait_answers(&client, ROUTED)
}
