//! A stock Envoy takes everything that the control plane serves, over both variants of ADS.
//!
//! It runs in a network namespace of its own, which nothing leads out of: it reaches the control plane, and the test reaches
//! it, over Unix sockets. Needs the right to make a namespace.
#![allow(clippy::panic, clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Lab, PATIENCE, get_unix, service};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use weft_proto::resource::{BACK_END, BACK_END_ENVOY};

const SERVICES: usize = 50;

fn envoy() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/envoy/envoy");
    let path = std::env::var_os("WEFT_TEST_ENVOY").map_or(installed, PathBuf::from);
    assert!(
        path.exists(),
        "no Envoy at {}: run scripts/install-envoy, or name one in WEFT_TEST_ENVOY",
        path.display()
    );
    path
}

struct Envoy {
    child: Child,
    admin: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Envoy {
    /// Envoy with the control plane of `lab`, once it answers.
    async fn start(lab: &Lab, api_type: &str, back_end: &str) -> Self {
        Self::of_node("n1", lab, api_type, back_end).await
    }

    /// As that of this node.
    async fn of_node(node: &str, lab: &Lab, api_type: &str, back_end: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        let (control, admin, config, log) = (
            path("control"),
            path("admin"),
            path("config.json"),
            path("log"),
        );
        let listener = UnixListener::bind(&control).unwrap();
        let server = Server::builder().add_service(lab.plane.ads_service());
        tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
        std::fs::write(
            &config,
            bootstrap(
                &format!("{node}/envoy"),
                &control,
                &admin,
                api_type,
                back_end,
            )
            .to_string(),
        )
        .unwrap();
        let mut child = Command::new("unshare")
            .arg("--net")
            .arg(envoy())
            .arg("--config-path")
            .arg(&config)
            .args(["--reject-unknown-dynamic-fields", "--disable-hot-restart"])
            .args(["--concurrency", "1", "--log-level", "warning"])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        while get_unix(&admin, "/server_info").await.is_err() {
            let said = || std::fs::read_to_string(&log).unwrap();
            assert!(
                child.try_wait().unwrap().is_none(),
                "Envoy ended: {}",
                said()
            );
            assert!(
                Instant::now() < deadline,
                "Envoy does not start: {}",
                said()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self {
            child,
            admin,
            _folder: folder,
        }
    }

    /// Sum of all counters whose name ends so.
    async fn counters(&self, suffix: &str) -> u64 {
        let stats = get_unix(&self.admin, "/stats").await.unwrap_or_default();
        stats
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter(|(name, _)| name.ends_with(suffix))
            .filter_map(|(_, value)| value.parse::<u64>().ok())
            .sum()
    }

    async fn dump(&self) -> Dump {
        let text = get_unix(&self.admin, "/config_dump?include_eds").await;
        Dump(serde_json::from_str(&text.unwrap()).unwrap())
    }
}

fn bootstrap(node: &str, control: &Path, admin: &Path, api_type: &str, back_end: &str) -> Value {
    serde_json::json!({
        "node": {"id": node, "cluster": "test"},
        "admin": {"address": {"pipe": {"path": admin}}},
        "dynamic_resources": {
            "ads_config": {
                "api_type": api_type,
                "transport_api_version": "V3",
                "grpc_services": [{
                    "envoy_grpc": {"cluster_name": "weft.control"},
                    "initial_metadata": [{"key": BACK_END, "value": back_end}],
                }],
            },
            "cds_config": {"resource_api_version": "V3", "ads": {}},
            "lds_config": {"resource_api_version": "V3", "ads": {}},
        },
        "static_resources": {"clusters": [{
            "name": "weft.control",
            "type": "STATIC",
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": {"http2_protocol_options": {}},
                },
            },
            "load_assignment": {"cluster_name": "weft.control", "endpoints": [{"lb_endpoints": [{
                "endpoint": {"address": {"pipe": {"path": control}}},
            }]}]},
        }]},
    })
}

struct Dump(Value);

impl Dump {
    fn section<'a>(&'a self, config: &str, list: &str) -> Vec<&'a Value> {
        self.0["configs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|c| c["@type"].as_str().unwrap().ends_with(config))
            .filter_map(|c| c[list].as_array())
            .flatten()
            .collect()
    }

    fn listeners(&self) -> BTreeSet<String> {
        let all = self.section("ListenersConfigDump", "dynamic_listeners");
        for listener in &all {
            assert!(listener["error_state"].is_null(), "{listener}");
        }
        let active = all.iter().filter(|l| !l["active_state"].is_null());
        active.map(|l| text(&l["name"])).collect()
    }

    fn clusters(&self) -> BTreeSet<String> {
        let all = self.section("ClustersConfigDump", "dynamic_active_clusters");
        all.iter().map(|c| text(&c["cluster"]["name"])).collect()
    }

    /// "cluster address" of every endpoint.
    fn endpoints(&self) -> BTreeSet<String> {
        let all = self.section("EndpointsConfigDump", "dynamic_endpoint_configs");
        let mut found = BTreeSet::new();
        for assignment in all.iter().map(|e| &e["endpoint_config"]) {
            let groups = assignment["endpoints"].as_array();
            for endpoint in groups
                .into_iter()
                .flatten()
                .filter_map(|g| g["lb_endpoints"].as_array())
                .flatten()
            {
                let address = &endpoint["endpoint"]["address"]["socket_address"];
                found.insert(format!(
                    "{} {}",
                    text(&assignment["cluster_name"]),
                    text(&address["address"])
                ));
            }
        }
        found
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A service of each kind that Envoy could stumble over, besides many plain ones.
fn manifests() -> String {
    let mut all = String::new();
    for i in 1..=SERVICES {
        all += &service(
            &format!("s{i}"),
            &format!("10.96.0.{i}"),
            &format!("10.0.0.{i}"),
        );
    }
    all + r#"---
apiVersion: v1
kind: Service
metadata: {name: dns, namespace: shop}
spec:
  clusterIPs: [10.96.1.1, "fd00:96::1"]
  externalIPs: [192.0.2.1]
  sessionAffinity: ClientIP
  internalTrafficPolicy: Local
  ports: [{name: udp, port: 53, protocol: UDP}, {name: tcp, port: 53}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dns-a, namespace: shop, labels: {kubernetes.io/service-name: dns}}
addressType: IPv4
ports: [{name: udp, port: 5353, protocol: UDP}, {name: tcp, port: 5353}]
endpoints:
- {addresses: [10.0.1.1], nodeName: a, zone: z}
- {addresses: [10.0.1.2], conditions: {ready: false, serving: true, terminating: true}}
- {addresses: [10.0.1.3], conditions: {ready: false}}
---
apiVersion: weft.io/v1alpha1
kind: TrafficPolicy
metadata: {name: dns, namespace: shop}
spec:
  targetRefs: [{kind: Service, name: dns}, {kind: Service, name: s1}]
  loadBalancing: {policy: Maglev}
  timeouts: {connect: 1s, idle: 10m, maxDuration: 24h}
  limits: {maxConnections: 10000, connectionsPerSecond: 500}
  outlier: {consecutiveFailures: 5, baseEjection: 30s, maxEjectedPercent: 50}
"#
}

async fn envoy_takes_everything(api_type: &str) {
    let lab = Lab::start(&[("all.yaml", &manifests())]).await;
    let envoy = Envoy::start(&lab, api_type, "any").await;

    let mut expected: BTreeSet<String> = (1..=SERVICES)
        .map(|i| format!("shop/s{i}:80/tcp"))
        .collect();
    expected.extend(["shop/dns:53/udp", "shop/dns:53/tcp"].map(str::to_owned));
    let mut endpoints: BTreeSet<String> = (1..=SERVICES)
        .map(|i| format!("shop/s{i}:80/tcp 10.0.0.{i}"))
        .collect();
    for i in 1..=3 {
        endpoints.insert(format!("shop/dns:53/udp 10.0.1.{i}"));
        endpoints.insert(format!("shop/dns:53/tcp 10.0.1.{i}"));
    }
    until(&lab, &envoy, &expected, &endpoints).await;

    // A change, an addition and a removal arrive too.
    lab.write("more.yaml", &service("more", "10.96.2.1", "10.0.2.1"));
    expected.insert("shop/more:80/tcp".to_owned());
    endpoints.insert("shop/more:80/tcp 10.0.2.1".to_owned());
    until(&lab, &envoy, &expected, &endpoints).await;
    lab.write("more.yaml", &service("more", "10.96.2.1", "10.0.2.2"));
    endpoints.remove("shop/more:80/tcp 10.0.2.1");
    endpoints.insert("shop/more:80/tcp 10.0.2.2".to_owned());
    until(&lab, &envoy, &expected, &endpoints).await;
    lab.remove("more.yaml");
    expected.remove("shop/more:80/tcp");
    endpoints.remove("shop/more:80/tcp 10.0.2.2");
    until(&lab, &envoy, &expected, &endpoints).await;

    assert_eq!(envoy.counters("update_rejected").await, 0);
    assert!(envoy.counters("update_success").await > 0);
    assert_eq!(lab.plane.nacks(), []);
}

/// Waits until Envoy has exactly these.
async fn until(lab: &Lab, envoy: &Envoy, names: &BTreeSet<String>, endpoints: &BTreeSet<String>) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let dump = envoy.dump().await;
        let have = (dump.listeners(), dump.clusters(), dump.endpoints());
        if have.0 == *names && have.1 == *names && have.2 == *endpoints {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "Envoy has {have:?}; it refused {:?}",
            lab.plane.nacks()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn delta() {
    envoy_takes_everything("DELTA_GRPC").await;
}

#[tokio::test]
async fn state_of_the_world() {
    envoy_takes_everything("GRPC").await;
}

/// What a node's Envoy is sent: the services with routes, in both families, and nothing else; every route is taken.
#[tokio::test]
async fn a_nodes_envoy_takes_its_routes() {
    let routes = include_str!("../testdata/routes.yaml");
    let plain = service("plain", "10.96.9.1", "10.0.9.1");
    let lab = Lab::start(&[("plain.yaml", &plain), ("routes.yaml", routes)]).await;
    let envoy = Envoy::start(&lab, "DELTA_GRPC", BACK_END_ENVOY).await;
    let both = |name: &str| ["4", "6"].map(|family| format!("{name}#{family}"));
    let listeners: BTreeSet<String> = both("shop/web:80/tcp")
        .into_iter()
        .chain(both("shop/web:81/tcp"))
        .collect();
    let clusters: BTreeSet<String> = both("shop/near:80/tcp")
        .into_iter()
        .chain(both("shop/far:80/tcp"))
        .collect();
    let endpoints = BTreeSet::from(["shop/near:80/tcp#4 10.0.0.1".to_owned()]);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let dump = envoy.dump().await;
        let routes: BTreeSet<String> = dump
            .section("RoutesConfigDump", "dynamic_route_configs")
            .iter()
            .map(|r| text(&r["route_config"]["name"]))
            .collect();
        let have = (dump.listeners(), dump.clusters(), dump.endpoints(), routes);
        let wanted = (
            listeners.clone(),
            clusters.clone(),
            endpoints.clone(),
            listeners.clone(),
        );
        if have == wanted {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "Envoy has {have:?}; it refused {:?}",
            lab.plane.nacks()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Without routes there is nothing for Envoy to do.
    lab.remove("routes.yaml");
    while !envoy.dump().await.listeners().is_empty() {
        assert!(Instant::now() < deadline, "listeners stay");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(envoy.counters("update_rejected").await, 0);
    assert_eq!(lab.plane.nacks(), []);
}

/// Guards of pods go to their own node's Envoy, which takes them, also those of thousands of rules, and changes of them.
#[tokio::test]
async fn a_nodes_envoy_takes_its_guards() {
    const RULES: usize = 2_000;
    let rules: String = (0..RULES)
        .map(|i| {
            format!("  - to: [{{operation: {{paths: [/p{i}/*], methods: [GET], hosts: ['*']}}}}]\n")
        })
        .collect();
    let many = format!(
        "apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {{name: many, namespace: shop}}
spec:
  rules:
{rules}"
    );
    let requests = include_str!("../testdata/requests.yaml");
    let lab = Lab::start(&[("requests.yaml", requests), ("many.yaml", &many)]).await;
    let envoy = Envoy::start(&lab, "DELTA_GRPC", BACK_END_ENVOY).await;
    let other = Envoy::of_node("n2", &lab, "DELTA_GRPC", BACK_END_ENVOY).await;
    let guards = |names: &[&str]| -> BTreeSet<String> {
        let names = names.iter();
        names
            .map(|name| format!("weft.inbound/pod/shop/{name}"))
            .collect()
    };
    let both = guards(&["cart", "other"]);
    let last = format!("/p{}/", RULES - 1);
    wait_for_guards(&lab, &envoy, &both, |rules| rules.contains(&last)).await;
    let few = many.lines().take(6).collect::<Vec<_>>().join("\n");
    lab.write("many.yaml", &few);
    wait_for_guards(&lab, &envoy, &both, |rules| !rules.contains(&last)).await;
    assert!(
        other.dump().await.listeners().is_empty(),
        "they are of another node"
    );
    for envoy in [envoy, other] {
        assert_eq!(envoy.counters("update_rejected").await, 0);
    }
    assert_eq!(lab.plane.nacks(), []);
}

async fn wait_for_guards(
    lab: &Lab,
    envoy: &Envoy,
    guards: &BTreeSet<String>,
    is_wanted: impl Fn(&str) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    let wanted = BTreeSet::from(["4", "6"].map(|family| format!("weft.inbound/n1#{family}")));
    loop {
        let dump = envoy.dump().await;
        let routes = dump.section("RoutesConfigDump", "dynamic_route_configs");
        let rules: String = routes.iter().map(ToString::to_string).collect();
        let names = routes.iter().map(|r| text(&r["route_config"]["name"]));
        let names: BTreeSet<String> = names.collect();
        if dump.listeners() == wanted && names == *guards && is_wanted(&rules) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "Envoy has {:?} and {names:?}; it refused {:?}",
            dump.listeners(),
            lab.plane.nacks()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
