//! Clients outside and the nodes' Envoys: routes are not theirs, policies about requests are.

use anyhow::ensure;
use serde_json::json;
use weft_e2e::http::{curl, serve, with_envoy};
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};

use super::site::{BACKENDS, BEHIND, Site};

/// Whoever asks by way of the route is sent elsewhere.
const REDIRECT: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: web}]
  rules:
  - filters:
    - {type: RequestRedirect, requestRedirect: {hostname: elsewhere.example, statusCode: 302}}
";

const ONLY_GET: &str = r"
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: only-get, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  action: ALLOW
  rules: [{to: [{operation: {methods: [GET]}}]}]
";

#[test]
fn routes_are_for_clients_inside_and_policies_about_requests_for_all() -> Result {
    let site = Site::start_bare(&with_envoy())?;
    let servers = BACKENDS
        .iter()
        .map(|name| serve(&site.mesh.lab, name, 8080));
    let _servers = servers.collect::<Result<Vec<_>>>()?;
    site.service(&json!({}), &[], 3)?;
    site.mesh.apply("route", REDIRECT)?;
    let client = site.mesh.pod(BEHIND)?;
    let mut urls = Vec::new();
    for node in ["n1", "n2"] {
        for at in site.node_ports(node)? {
            urls.push(format!("http://{at}/"));
        }
    }
    for url in &urls {
        for _ in 0..6 {
            let answer = curl(&client, url, &[])?;
            ensure!(answer.status == 200, "{url}: {answer:?}");
        }
    }
    site.mesh.apply("policy", ONLY_GET)?;
    for url in &urls {
        // Each backend's Envoy has the policy in its own time: none is left without it.
        eventually(LONG, || {
            for _ in 0..8 {
                let answer = curl(&client, url, &["-X", "POST"])?;
                ensure!(answer.status == 403, "{url}: {answer:?}");
            }
            Ok(())
        })?;
        for _ in 0..8 {
            let answer = curl(&client, url, &[])?;
            ensure!(answer.status == 200, "{url}: {answer:?}");
        }
    }
    Ok(())
}
