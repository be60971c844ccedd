//! xDS with what others have made of it: gRPC clients that need no proxy, and a management server of go-control-plane.

use std::fs;
use std::path::PathBuf;

use anyhow::ensure;
use serde_json::json;
use weft_e2e::gopeer::{self, Calls};
use weft_e2e::mesh::TARGET;
use weft_e2e::stats::{assert_even, by_server};
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};
use weft_lab::{
    GetOptions, Lab, LabBuilder, Pod, PodSpec, Process, ServeOptions, Weft, WeftOptions,
};

const SERVICES: &str = "
apiVersion: v1
kind: Service
metadata: {name: greeter, namespace: default}
spec:
  clusterIP: 10.96.0.9
  selector: {role: greeter}
  ports: [{name: metrics, port: 9090}, {name: grpc, port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: second, namespace: default}
spec:
  clusterIP: 10.96.0.10
  selector: {app: b}
  ports: [{port: 80, targetPort: 8080}]
";
const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: greeter, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: greeter, port: 80}]
  rules:
  - matches: [{method: {service: grpc.testing.TestService}}]
    backendRefs: [{name: second, port: 80}]
";

fn town() -> LabBuilder {
    let greeter = |name: &str| {
        PodSpec::new(name, "n1")
            .label("role", "greeter")
            .label("app", name)
    };
    Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(greeter("a"))
        .pod(greeter("b"))
}

#[test]
fn grpc_clients_need_no_proxy() -> Result {
    let lab = town().build()?;
    lab.publish()?;
    lab.manifests().write("services", SERVICES)?;
    let node = lab.node("n1")?;
    let _control = Weft::control(&node, lab.manifests(), 15010, WeftOptions::default())?;
    let _servers = [
        gopeer::serve(&lab.pod("a")?, TARGET)?,
        gopeer::serve(&lab.pod("b")?, TARGET)?,
    ];
    let address = format!("{}:15010", node.addresses().v4);
    let client = lab.pod("client")?;
    let call = |target: &str, count| gopeer::call(&client, &address, target, count);

    for target in [
        "xds:///greeter.default",
        "xds:///greeter.default:80",
        "xds:///greeter.default.svc.cluster.local:80",
    ] {
        eventually(LONG, || ensure_only(&call(target, 10)?, &["a", "b"]))?;
    }
    let unknown = call("xds:///nobody.default", 1)?;
    ensure!(unknown.servers.is_empty(), "{unknown:?}");

    lab.manifests().write("route", ROUTE)?;
    eventually(LONG, || {
        ensure_only(&call("xds:///greeter.default", 10)?, &["b"])
    })?;
    lab.manifests().remove("route")?;
    eventually(LONG, || {
        ensure_only(&call("xds:///greeter.default", 10)?, &["a", "b"])
    })
}

/// Exactly these answered, and no call failed.
fn ensure_only(calls: &Calls, servers: &[&str]) -> Result {
    let answered: Vec<_> = calls.servers.keys().collect();
    ensure!(
        calls.failures.is_empty() && answered == servers,
        "{calls:?}"
    );
    Ok(())
}

/// A node whose agent hears a server of go-control-plane.
struct Site {
    agent: Weft,
    _control: Process,
    _servers: Vec<Process>,
    said: PathBuf,
    lab: Lab,
}

impl Site {
    fn start() -> Result<Self> {
        let lab = town().build()?;
        let node = lab.node("n1")?;
        let said = lab.dir().join("said.json");
        say(&lab, &said, &["a", "b"], &[])?;
        let control = node
            .command(gopeer::xds())
            .args(["control", "127.0.0.1:15010"])
            .arg(&said)
            .spawn()?;
        let serve = |name: &str| -> Result<Process> {
            Ok(lab.pod(name)?.serve(&ServeOptions::tcp(TARGET))?)
        };
        let agent = Weft::agent(&node, "127.0.0.1:15010", WeftOptions::default())?;
        agent.wait_ready(LONG)?;
        Ok(Self {
            agent,
            _control: control,
            _servers: vec![serve("a")?, serve("b")?],
            said,
            lab,
        })
    }

    fn say(&self, backends: &[&str], refused: &[&str]) -> Result {
        say(&self.lab, &self.said, backends, refused)
    }

    fn client(&self) -> Result<Pod> {
        Ok(self.lab.pod("client")?)
    }
}

fn say(lab: &Lab, file: &PathBuf, backends: &[&str], refused: &[&str]) -> Result {
    let address = |name: &&str| Ok(lab.pod(name)?.addresses().v4.to_string());
    let backends: Vec<_> = backends
        .iter()
        .map(|name| Ok(format!("{}:{TARGET}", address(name)?)))
        .collect::<Result<_>>()?;
    let refused: Vec<_> = refused.iter().map(address).collect::<Result<_>>()?;
    let pods = lab.pods();
    let pods: std::collections::BTreeMap<_, _> = pods
        .iter()
        .map(|pod| (pod.name(), pod.addresses().v4.to_string()))
        .collect();
    let text = json!({
        "vip": VIP, "backends": backends, "node": "n1", "pods": pods, "refused": refused,
    });
    // In one step, or else the server reads half of it.
    let new = file.with_extension("new");
    fs::write(&new, text.to_string())?;
    Ok(fs::rename(new, file)?)
}

const VIP: &str = "10.96.0.9:80";

#[test]
fn go_control_plane_drives_the_kernel() -> Result {
    let site = Site::start()?;
    let client = site.client()?;
    let ask = |count| {
        client
            .get(VIP.parse()?, &GetOptions::tcp(count))
            .map_err(anyhow::Error::from)
    };
    eventually(LONG, || {
        ensure!(ask(2)?.iter().all(|a| a.ok()), "no answer yet");
        Ok(())
    })?;
    assert_even(&by_server(&ask(60)?), &["a", "b"]);

    site.say(&["b"], &[])?;
    eventually(LONG, || {
        let counts = by_server(&ask(10)?);
        ensure!(counts.len() == 1 && counts.contains_key("b"), "{counts:?}");
        Ok(())
    })?;

    site.say(&["b"], &["client"])?;
    eventually(LONG, || {
        let attempts = ask(1)?;
        ensure!(!attempts.iter().any(|a| a.ok()), "let in: {attempts:?}");
        let told = site
            .agent
            .cli(&["flows", "--verdict", "denied", "-o", "json"])?;
        let told: Vec<serde_json::Value> = told.success()?.json_lines()?;
        ensure!(
            told.iter().any(|f| f["policy"] == "Policy refused"),
            "{told:?}"
        );
        Ok(())
    })?;

    site.say(&["a", "b"], &[])?;
    eventually(LONG, || {
        ensure!(ask(2)?.iter().all(|a| a.ok()), "still refused");
        Ok(())
    })?;
    assert_even(&by_server(&ask(60)?), &["a", "b"]);
    site.agent.wait_ready(LONG)?;
    Ok(())
}
