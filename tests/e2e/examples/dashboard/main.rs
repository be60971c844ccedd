//! A town with everything in it that the dashboard shows: runs a command where its Prometheus answers, once that has seen enough.
//!
//! Usage: dashboard SECONDS COMMAND [ARGUMENT]...
//!
//! The command finds the Prometheus at `$PROMETHEUS`. deploy/dashboards/picture/run takes the picture of the dashboard with it.

mod talk;

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use weft_e2e::collector::Collector;
use weft_e2e::http::{serve, with_envoy};
use weft_e2e::mesh::{PORT, TARGET, vip_addresses};
use weft_e2e::prometheus::{ADDRESS, Prometheus};
use weft_e2e::{Mesh, Result};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{Lab, Node, PodSpec, Process, ServeOptions};

use crate::talk::Talk;

const COLLECTOR: &str = "127.0.0.1:4317";
const METRICS: u16 = 15020;
/// Seconds between two scrapes: short, as the picture shows minutes, not days.
const SCRAPE: u32 = 5;
const OBJECTS: &str = include_str!("objects.yaml");

/// Name, namespace, label `app` and node.
const PODS: [(&str, &str, &str, &str); 11] = [
    ("web", "shop", "web", "n1"),
    ("mobile", "shop", "mobile", "n2"),
    ("shelf-1", "shop", "shelf", "n1"),
    ("shelf-2", "shop", "shelf", "n2"),
    ("cart", "shop", "cart", "n2"),
    ("pay-1", "shop", "pay", "n1"),
    ("pay-2", "shop", "pay", "n2"),
    ("reports", "shop", "reports", "n1"),
    ("ledger", "bank", "ledger", "n2"),
    ("names", "infra", "names", "n1"),
    ("stranger", "street", "stranger", "n1"),
];

/// Namespace, name and backends of the services, by their addresses' numbers.
const SERVICES: [(u16, &str, &str, u64); 5] = [
    (talk::SHELF, "shop", "shelf", 2),
    (talk::CART, "shop", "cart", 1),
    (talk::PAY, "shop", "pay", 2),
    (talk::LEDGER, "bank", "ledger", 1),
    (talk::NAMES, "infra", "names", 1),
];

/// Payments are limited; what is one of these limits, and what another, is something for the control plane to send.
fn limit(per_second: u32) -> String {
    format!(
        "apiVersion: weft.io/v1alpha1
kind: TrafficPolicy
metadata: {{name: pay, namespace: shop}}
spec:
  targetRefs: [{{kind: Service, name: pay}}]
  limits: {{connectionsPerSecond: {per_second}}}
  outlier: {{consecutiveFailures: 5, baseEjection: 10s, maxEjectedPercent: 50}}
"
    )
}

struct Town {
    // Dropped before the mesh.
    _servers: Vec<Process>,
    flaky: Option<Process>,
    mesh: Mesh,
}

impl Town {
    fn start() -> Result<Self> {
        let builder = PODS.iter().fold(
            Lab::builder().node("n1").node("n2"),
            |lab, (name, namespace, app, node)| {
                lab.pod(
                    PodSpec::new(*name, *node)
                        .namespace(*namespace)
                        .label("app", *app),
                )
            },
        );
        let mut mesh = Mesh::start_each(builder, |node| {
            with_envoy()
                .arg("--otlp")
                .arg(format!("http://{COLLECTOR}"))
                .arg("--request-metrics")
                .arg("on")
                .arg("--metrics")
                .arg(metrics(node).to_string())
        })?;
        for (pod, millis) in [("cart", 15), ("pay-1", 40), ("ledger", 5), ("names", 1)] {
            let options = ServeOptions::tcp(TARGET).and_udp(TARGET);
            mesh.serve_with(&[pod], &options.delay(Duration::from_millis(millis)))?;
        }
        let servers = ["shelf-1", "shelf-2"].map(|pod| serve(&mesh.lab, pod, TARGET));
        for (index, namespace, name, backends) in SERVICES {
            let port = match index {
                talk::NAMES => ServicePort::udp(PORT),
                _ => ServicePort::tcp(PORT),
            };
            let service = ServiceManifest::new(name)
                .namespace(namespace)
                .cluster_ips(vip_addresses(index))
                .port(port.to(TARGET))
                .selector("app", name);
            mesh.service(&service, backends)?;
        }
        mesh.apply("objects", OBJECTS)?;
        mesh.apply("limit", &limit(9))?;
        let mut town = Self {
            _servers: servers.into_iter().collect::<Result<_>>()?,
            flaky: None,
            mesh,
        };
        town.mend()?;
        Ok(town)
    }

    /// The second payment server serves.
    fn mend(&mut self) -> Result {
        let options = ServeOptions::tcp(TARGET).delay(Duration::from_millis(60));
        self.flaky = Some(self.mesh.pod("pay-2")?.serve(&options)?);
        Ok(())
    }

    /// Something happens: limits change all the time, and the second payment server is away for a while, so that it is ejected.
    fn live(&mut self, whole: Duration) -> Result {
        let start = Instant::now();
        while start.elapsed() < whole {
            let part = start.elapsed().as_secs_f64() / whole.as_secs_f64();
            if (0.5..0.7).contains(&part) {
                self.flaky = None;
            } else if self.flaky.is_none() {
                self.mend()?;
            }
            let turn = start.elapsed().as_secs() / 10 % 2;
            self.mesh
                .apply("limit", &limit(if turn == 0 { 9 } else { 8 }))?;
            thread::sleep(Duration::from_secs(5));
        }
        Ok(())
    }
}

fn metrics(node: &Node) -> std::net::SocketAddr {
    (node.addresses().v4, METRICS).into()
}

fn main() -> Result {
    let mut words = env::args().skip(1);
    let seconds = words.next().context("no number of seconds")?.parse()?;
    let program = words.next().context("no command")?;
    let mut town = Town::start()?;
    let nodes = town.mesh.lab.nodes().to_vec();
    let collectors = nodes
        .iter()
        .map(|node| Collector::start(node.netns(), COLLECTOR.parse()?));
    let _collectors = collectors.collect::<Result<Vec<_>>>()?;
    let agents: Vec<_> = nodes
        .iter()
        .map(|node| (node.name(), metrics(node)))
        .collect();
    let node = town.mesh.lab.node("n1")?;
    let _prometheus = Prometheus::start_for(&node, town.mesh.lab.dir(), SCRAPE, &agents)?;

    let talks = talk::all(&town.mesh)?;
    let over = AtomicBool::new(false);
    let said = thread::scope(|scope| -> Result<_> {
        let talkers = talks.iter().map(|talk| scope.spawn(|| go_on(talk, &over)));
        let talkers: Vec<_> = talkers.collect();
        let lived = town.live(Duration::from_secs(seconds));
        // While all of them still talk: else the newest rates are lower than they were.
        let said = lived.and_then(|()| {
            let command = node
                .command(program)
                .args(words)
                .env("PROMETHEUS", format!("http://{ADDRESS}"));
            Ok(command.run(Duration::from_secs(60))?)
        });
        over.store(true, Ordering::Relaxed);
        for talker in talkers {
            ensure!(
                talker.join().is_ok_and(|end| end.is_ok()),
                "a talk broke off"
            );
        }
        said
    })?;
    print!("{}", said.success()?.stdout);
    Ok(())
}

fn go_on(talk: &Talk, over: &AtomicBool) -> Result {
    let start = Instant::now();
    while !over.load(Ordering::Relaxed) {
        talk.once(start.elapsed())?;
    }
    Ok(())
}
