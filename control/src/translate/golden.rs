//! Manifests in, resources out: each `testdata/NAME.yaml` against its `NAME.golden.yaml`.
//!
//! `UPDATE_GOLDEN=1 cargo test -p weft-control golden` writes them anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::mpsc;
use weft_proto::convert;
use weft_proto::envoy::envoy::config::route::v3::{
    RouteConfiguration, route::Action, route_action::ClusterSpecifier,
};
use weft_proto::envoy::envoy::extensions::filters::http::rbac::v3::RbacPerRoute;
use weft_proto::model::policy::Tier;
use weft_proto::model::{
    Cluster, ClusterEndpoints, EndpointSource, Layer, Listener, Mtls, Policy, Problem, Resource,
    Side, Workload,
};
use weft_proto::resource::ResourceType;

use crate::ads::Store;
use crate::engine::{Engine, Settings};
use crate::source::Event;
use crate::source::folder::read_file;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

#[test]
fn golden_files() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut cases: Vec<PathBuf> = fs::read_dir(testdata())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.to_string_lossy();
            name.ends_with(".yaml") && !name.ends_with(".golden.yaml")
        })
        .collect();
    cases.sort();
    assert!(cases.len() > 5, "where are the cases?");
    let mut failed = Vec::new();
    for case in cases {
        let expected = case.with_extension("golden.yaml");
        let actual = resources_of(&case);
        if update {
            fs::write(&expected, actual).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != actual {
            eprintln!("{} should be:\n{actual}", expected.display());
            failed.push(case);
        }
    }
    assert!(
        failed.is_empty(),
        "{failed:?} differ: see above, or set UPDATE_GOLDEN=1"
    );
}

/// What the whole control plane publishes for one file, after a trip over the wire.
fn resources_of(path: &Path) -> String {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let mut events = read_file(path, &name);
    events.push(Event::Synced);
    let (sender, receiver) = mpsc::channel(1);
    sender.try_send(events).unwrap();
    drop(sender);
    let store = Arc::new(Store::default());
    // Files of this name are about a mesh with a CA.
    let settings = Settings {
        tunnels: name.starts_with("mtls") || name.starts_with("out-of-mesh"),
        ..Settings::default()
    };
    let engine = Engine::new(Arc::clone(&store), settings);
    let envoys = engine.envoys();
    engine.run(receiver);
    let mut text = String::new();
    for resource_type in ResourceType::ALL {
        store.read(|snapshot| {
            let mut all: Vec<_> = snapshot.table(resource_type).for_all().collect();
            all.sort_by_key(|(name, _)| Arc::clone(name));
            for (_, entry) in all {
                let resource = convert::decode(resource_type, &entry.any()).unwrap();
                show(&mut text, &resource);
            }
        });
    }
    show_envoy(&mut text, &envoys);
    show_clients(&mut text, &store);
    text
}

/// What gRPC clients that speak xDS get besides.
fn show_clients(out: &mut String, store: &Store) {
    store.read(|snapshot| {
        let by_name = |resource_type| {
            let all = snapshot.table(resource_type).iter();
            let mut all: Vec<_> = all.filter(|(_, entry)| entry.by_name).collect();
            all.sort_by_key(|(name, _)| Arc::clone(name));
            all
        };
        let listeners = by_name(ResourceType::Listener);
        if !listeners.is_empty() {
            writeln!(out, "---\nclients' listeners:").unwrap();
        }
        for (name, _) in listeners {
            writeln!(out, "- {name}").unwrap();
        }
        for (name, entry) in by_name(ResourceType::Route) {
            let table: RouteConfiguration = convert::unpack(&entry.any(), "").unwrap();
            writeln!(out, "---\nclients' routes: {name}").unwrap();
            for route in table.virtual_hosts.iter().flat_map(|host| &host.routes) {
                match &route.action {
                    // One that has no name is of a service without routes.
                    Some(Action::Route(to)) if route.name.is_empty() => {
                        let Some(ClusterSpecifier::WeightedClusters(to)) = &to.cluster_specifier
                        else {
                            panic!("{to:?}");
                        };
                        writeln!(out, "all to: {}", to.clusters[0].name).unwrap();
                    }
                    _ => show_message(out, route),
                }
            }
        }
    });
}

/// What Envoys get besides: names, and routes as they are.
fn show_envoy(out: &mut String, envoys: &Store) {
    envoys.read(|snapshot| {
        for resource_type in [
            ResourceType::Cluster,
            ResourceType::Endpoints,
            ResourceType::Listener,
        ] {
            let mut names: Vec<_> = snapshot.table(resource_type).iter().collect();
            names.sort_by_key(|(name, _)| Arc::clone(name));
            for (name, _) in names {
                writeln!(out, "---\nenvoy's {resource_type}: {name}").unwrap();
            }
        }
        let mut all: Vec<_> = snapshot.table(ResourceType::Route).iter().collect();
        all.sort_by_key(|(name, _)| Arc::clone(name));
        // The other family's differ in the names of clusters alone.
        for (name, entry) in all.iter().filter(|(name, _)| name.ends_with("#4")) {
            let table: RouteConfiguration = convert::unpack(&entry.any(), "").unwrap();
            writeln!(out, "---\nenvoy's routes: {name}").unwrap();
            for route in table.virtual_hosts.iter().flat_map(|host| &host.routes) {
                show_message(out, route);
            }
        }
        for (name, entry) in all
            .iter()
            .filter(|(name, _)| name.starts_with("weft.inbound/"))
        {
            let guard: RouteConfiguration = convert::unpack(&entry.any(), "").unwrap();
            writeln!(out, "---\nenvoy's guard: {name}").unwrap();
            show_guard(out, &guard);
        }
    });
}

/// The rules of both RBAC filters.
fn show_guard(out: &mut String, guard: &RouteConfiguration) {
    let mut routes = guard.virtual_hosts.iter().flat_map(|host| &host.routes);
    let route = routes.next().unwrap();
    let filters: BTreeMap<_, _> = route.typed_per_filter_config.iter().collect();
    for (filter, config) in filters {
        let config: RbacPerRoute = convert::unpack(config, "").unwrap();
        let rbac = config.rbac.unwrap();
        for (what, rules) in [("asks", rbac.rules), ("audits", rbac.shadow_rules)] {
            let Some(rules) = rules else { continue };
            writeln!(out, "{filter} {what}: {:?}", rules.action()).unwrap();
            let policies: BTreeMap<_, _> = rules.policies.iter().collect();
            for (rule, policy) in policies {
                writeln!(out, "rule {rule:?}:").unwrap();
                let decoded = convert::decode_rule(policy).unwrap();
                writeln!(
                    out,
                    "  from: {}\n  to: {}",
                    decoded.source, decoded.destination
                )
                .unwrap();
            }
        }
    }
}

/// A message without the fields that say nothing.
fn show_message(out: &mut String, message: &impl std::fmt::Debug) {
    let says_nothing = |line: &str| {
        [": None,", ": [],", ": \"\",", ": 0,", ": false,", ": {},"]
            .iter()
            .any(|end| line.ends_with(end))
    };
    let text = format!("{message:#?}");
    for line in text.lines().filter(|line| !says_nothing(line)) {
        writeln!(out, "{line}").unwrap();
    }
}

/// One resource as a YAML document; fields that say nothing are left out.
fn show(out: &mut String, resource: &Resource) {
    match resource {
        Resource::Cluster(c) => show_cluster(out, c),
        Resource::Endpoints(e) => show_endpoints(out, e),
        Resource::Listener(l) => show_listener(out, l),
        Resource::Policy(p) => show_policy(out, p),
        Resource::Workload(w) => show_workload(out, w),
        Resource::Routes(_)
        | Resource::ApiListener(_)
        | Resource::ClientRoutes(_)
        | Resource::Inbound(_)
        | Resource::Guard(_)
        | Resource::TunnelCluster(_)
        | Resource::TunnelListener(_) => unreachable!("not for agents"),
        Resource::Problem(p) => show_problem(out, p),
    }
}

fn show_cluster(out: &mut String, c: &Cluster) {
    writeln!(out, "---\ncluster: {}", c.name).unwrap();
    match &c.endpoints {
        EndpointSource::Eds(of) if *of == c.name => {}
        EndpointSource::Eds(of) => writeln!(out, "endpoints: {of}").unwrap(),
        EndpointSource::Static(_) => unreachable!("endpoints come by themselves"),
    }
    writeln!(out, "policy: {}", c.policy.as_str()).unwrap();
    writeln!(out, "locality: {}", c.locality.as_str()).unwrap();
    for (field, value) in [
        ("affinity", c.affinity),
        ("connectTimeout", c.connect_timeout),
    ] {
        if let Some(value) = value {
            writeln!(out, "{field}: {value:?}").unwrap();
        }
    }
    if c.http {
        writeln!(out, "http: true").unwrap();
    }
    if let Some(max) = c.max_connections {
        writeln!(out, "maxConnections: {max}").unwrap();
    }
    if let Some(outlier) = c.outlier {
        writeln!(
            out,
            "outlier: {{consecutiveFailures: {}, baseEjection: {:?}, maxEjectedPercent: {}}}",
            outlier.consecutive_failures, outlier.base_ejection, outlier.max_ejected_percent
        )
        .unwrap();
    }
    if c.unaccelerated {
        writeln!(out, "acceleration: Disabled").unwrap();
    }
}

fn show_endpoints(out: &mut String, e: &ClusterEndpoints) {
    writeln!(out, "---\nendpoints: {}", e.name).unwrap();
    for e in &e.endpoints {
        write!(
            out,
            "- {{address: \"{}\", health: {}",
            e.address,
            e.health.as_str()
        )
        .unwrap();
        if e.weight != 1 {
            write!(out, ", weight: {}", e.weight).unwrap();
        }
        for (field, value) in [("node", &e.locality.node), ("zone", &e.locality.zone)] {
            if !value.is_empty() {
                write!(out, ", {field}: {value}").unwrap();
            }
        }
        writeln!(out, "}}").unwrap();
    }
}

fn show_listener(out: &mut String, l: &Listener) {
    writeln!(out, "---\nlistener: {}", l.name).unwrap();
    let service = l.service.as_ref().unwrap();
    writeln!(out, "service: {service}\nportName: {:?}", service.port_name).unwrap();
    writeln!(out, "addresses: {:?}", l.addresses).unwrap();
    writeln!(out, "port: {}/{}", l.port, l.protocol).unwrap();
    writeln!(out, "cluster: {}", l.cluster).unwrap();
    if l.layer == Layer::Seven {
        writeln!(out, "layer: 7").unwrap();
    }
    if l.side == Side::Outside {
        writeln!(out, "side: outside").unwrap();
    }
    if !l.source_ranges.is_empty() {
        let ranges: Vec<String> = l.source_ranges.iter().map(ToString::to_string).collect();
        writeln!(out, "sourceRanges: [{}]", ranges.join(", ")).unwrap();
    }
    if let Some(port) = l.health_check_port {
        writeln!(out, "healthCheckPort: {port}").unwrap();
    }
    for (field, value) in [
        ("idleTimeout", l.idle_timeout),
        ("maxDuration", l.max_duration),
    ] {
        if let Some(value) = value {
            writeln!(out, "{field}: {value:?}").unwrap();
        }
    }
    if let Some(rate) = l.connections_per_second {
        writeln!(out, "connectionsPerSecond: {rate}").unwrap();
    }
}

fn show_policy(out: &mut String, p: &Policy) {
    writeln!(out, "---\npolicy: {}\norigin: {}", p.name, p.origin).unwrap();
    write!(
        out,
        "does: {:?} {:?} {:?} {:?}",
        p.mode, p.effect, p.direction, p.tier
    )
    .unwrap();
    match p.tier {
        Tier::Admin | Tier::Baseline => writeln!(out, " {}", p.priority).unwrap(),
        Tier::Namespace | Tier::Mesh => writeln!(out).unwrap(),
    }
    writeln!(out, "selects: {}", p.selector).unwrap();
    for (name, rule) in &p.rules {
        writeln!(out, "rule {name:?}:").unwrap();
        writeln!(out, "  from: {}\n  to: {}", rule.source, rule.destination).unwrap();
    }
}

fn show_workload(out: &mut String, w: &Workload) {
    writeln!(out, "---\nworkload: {}", w.name).unwrap();
    writeln!(out, "addresses: {:?}", w.addresses).unwrap();
    for (field, value) in [
        ("node", &w.node),
        ("zone", &w.zone),
        ("serviceAccount", &w.service_account),
        ("spiffeId", &w.spiffe_id),
    ] {
        if !value.is_empty() {
            writeln!(out, "{field}: {value}").unwrap();
        }
    }
    if !w.labels.is_empty() {
        writeln!(out, "labels: {:?}", w.labels).unwrap();
    }
    for port in &w.ports {
        writeln!(out, "port: {} {} {:?}", port.name, port.port, port.protocol).unwrap();
    }
    if w.host_network {
        writeln!(out, "hostNetwork: true").unwrap();
    }
    if w.out_of_mesh {
        writeln!(out, "mesh: out").unwrap();
    }
    if w.unaccelerated {
        writeln!(out, "acceleration: off").unwrap();
    }
    if w.mtls != Mtls::default() {
        let Mtls {
            mode,
            ports,
            tunnel,
        } = &w.mtls;
        writeln!(out, "mtls: {} {ports:?} tunnel: {tunnel}", mode.as_str()).unwrap();
    }
}

fn show_problem(out: &mut String, p: &Problem) {
    writeln!(out, "---\nproblem: {:?}", p.severity).unwrap();
    writeln!(
        out,
        "origin: {}\nobject: {}\nfield: {:?}",
        p.origin, p.object, p.field
    )
    .unwrap();
    writeln!(out, "message: {:?}", p.message).unwrap();
}
