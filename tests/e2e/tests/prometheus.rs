//! Prometheus reads what agents count, and each panel of the dashboard has something to show.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::collector::Collector;
use weft_e2e::http::{curl, serve, urls, with_envoy};
use weft_e2e::mesh::{TARGET, vip_addresses, vips};
use weft_e2e::prometheus::{Prometheus, deployed, promtool};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{GetOptions, Lab, PodSpec, Process};

const COLLECTOR: &str = "127.0.0.1:4317";

const OBJECTS: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: bank}
spec:
  podSelector: {matchLabels: {app: ledger}}
  policyTypes: [Ingress]
---
apiVersion: weft.io/v1alpha1
kind: TrafficPolicy
metadata: {name: pay, namespace: shop}
spec:
  targetRefs: [{kind: Service, name: pay}]
  limits: {connectionsPerSecond: 20}
  outlier: {consecutiveFailures: 5, baseEjection: 30s, maxEjectedPercent: 50}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shelf, namespace: shop}
spec:
  parentRefs: [{group: '', kind: Service, name: shelf}]
  rules: [{backendRefs: [{name: shelf, port: 80}]}]
";

fn town() -> Result<(Mesh, Process)> {
    let pod = |name: &str, namespace: &str| {
        PodSpec::new(name, "n1")
            .namespace(namespace)
            .label("app", name)
    };
    let options = with_envoy()
        .arg("--otlp")
        .arg(format!("http://{COLLECTOR}"))
        .arg("--request-metrics")
        .arg("on");
    let builder = Lab::builder()
        .node("n1")
        .pod(pod("web", "shop"))
        .pod(pod("payments", "shop"))
        .pod(pod("shelf", "shop"))
        .pod(pod("ledger", "bank"));
    let mut mesh = Mesh::start_with(builder, &options)?;
    mesh.serve(&["payments", "ledger"])?;
    let http = serve(&mesh.lab, "shelf", TARGET)?;
    for (index, name, app) in [(1, "pay", "payments"), (2, "shelf", "shelf")] {
        let service = ServiceManifest::new(name).namespace("shop");
        let service = service.cluster_ips(vip_addresses(index));
        let service = service.port(ServicePort::tcp(80).named("http").to(TARGET));
        mesh.service(&service.selector("app", app), 1)?;
    }
    mesh.apply("objects", OBJECTS)?;
    Ok((mesh, http))
}

/// A connection that ends by RST.
const RESET: &str = r#"
import socket, struct, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
"#;

/// More than the limit lets through to the service, what a policy refuses, a request through Envoy, and a connection that is broken off.
fn ask_everybody(mesh: &Mesh) -> Result {
    let ask = |to: SocketAddr, times: u32| -> Result {
        let options = GetOptions::tcp(times).timeout(Duration::from_millis(300));
        mesh.pod("web")?.get(to, &options)?;
        Ok(())
    };
    ask(vips(1)[0], 60)?;
    ask(mesh.pod("ledger")?.socket_v4(TARGET), 1)?;
    curl(&mesh.pod("web")?, &urls(2, "/")[0], &[])?;
    let to = mesh.pod("payments")?.socket_v4(TARGET);
    let reset = mesh
        .pod("web")?
        .command("/usr/bin/python3")
        .args(["-c", RESET]);
    let reset = reset.args([to.ip().to_string(), to.port().to_string()]);
    reset.run(LONG)?.success()?;
    Ok(())
}

/// Each expression of the dashboard, with what Grafana would put in place of its variables.
fn expressions() -> Result<Vec<(String, String)>> {
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(deployed("weft.json"))?)?;
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().context("no panels")? {
        let title = panel["title"].as_str().unwrap_or_default();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = target["expr"].as_str().context("no expression")?;
            let text = text.replace("$__rate_interval", "10s");
            let text = ["$job", "$instance", "$namespace"]
                .iter()
                .fold(text, |text, variable| text.replace(variable, ".*"));
            ensure!(!text.contains('$'), "{title}: a variable is left in {text}");
            found.push((title.to_owned(), text));
        }
    }
    Ok(found)
}

#[test]
fn every_panel_has_data_and_every_rule_is_evaluated() -> Result {
    let (mesh, _http) = town()?;
    let node = mesh.lab.node("n1")?;
    let _collector = Collector::start(node.netns(), COLLECTOR.parse()?)?;
    let prometheus = Prometheus::start(&node, mesh.lab.dir())?;
    let expressions = expressions()?;
    ensure!(expressions.len() >= 20, "{} panels", expressions.len());
    let mut limit = 20;
    eventually(LONG, || {
        ask_everybody(&mesh)?;
        // Something for the control plane to send.
        limit += 1;
        let changed = format!("connectionsPerSecond: {limit}");
        mesh.apply(
            "objects",
            &OBJECTS.replace("connectionsPerSecond: 20", &changed),
        )?;
        let mut empty = Vec::new();
        for (title, expression) in &expressions {
            let found = prometheus.query(expression)?;
            let numbers = found.iter().filter_map(|s| s["value"][1].as_str());
            let real = numbers.filter(|n| *n != "NaN").count();
            if real == 0 {
                empty.push(format!("{title}: {expression}"));
            }
        }
        ensure!(empty.is_empty(), "nothing to show: {empty:#?}");
        Ok(())
    })?;
    // The dashboard's numbers are those of the page: what was refused, and why.
    let refused = prometheus.query(r#"weft_connections_denied_total{reason="isolated"}"#)?;
    let labels = &refused.first().context("no refusal")?["metric"];
    ensure!(labels["destination_workload"] == "ledger", "{labels}");
    ensure!(labels["destination_namespace"] == "bank", "{labels}");

    let rules = prometheus.api("rules", &[])?;
    let groups = rules["data"]["groups"].as_array().context("no groups")?;
    let all: Vec<&Value> = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().into_iter().flatten())
        .collect();
    ensure!(all.len() >= 10, "{} rules", all.len());
    for rule in &all {
        ensure!(rule["health"] == "ok", "{rule}");
    }
    let firing = |name: &str| {
        all.iter()
            .any(|r| r["name"] == name && r["state"] == "firing")
    };
    ensure!(!firing("WeftMapFull") && !firing("WeftEventsLost"));
    Ok(())
}

#[test]
fn promtool_finds_nothing_wrong_with_metrics_and_rules() -> Result {
    let (mesh, _http) = town()?;
    let node = mesh.lab.node("n1")?;
    ask_everybody(&mesh)?;
    let scrape = "curl -sS http://127.0.0.1:15020/metrics";
    eventually(LONG, || {
        let text = node
            .command("sh")
            .args(["-c", scrape])
            .run(LONG)?
            .success()?;
        ensure!(text.stdout.contains("weft_connections_closed_total{"));
        Ok(())
    })?;
    let check = format!(
        "{scrape} | {} check metrics",
        weft_e2e::prometheus::tool("promtool").display()
    );
    let checked = node.command("sh").args(["-c", &check]).run(LONG)?;
    ensure!(
        checked.status.success() && checked.stdout.is_empty() && checked.stderr.is_empty(),
        "promtool check metrics: {}{}",
        checked.stdout,
        checked.stderr
    );
    let rules = deployed("rules.yaml");
    promtool(&node, &["check", "rules", &rules.to_string_lossy()])?;
    let tests = deployed("rules.test.yaml");
    promtool(&node, &["test", "rules", &tests.to_string_lossy()])?;
    Ok(())
}
