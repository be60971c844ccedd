use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weft_proto::model::{
    Cluster, ClusterEndpoints, Endpoint, EndpointSource, Health, LbPolicy, Listener, Locality,
    LocalityMode, Problem, Protocol, Resource, ServiceRef, Severity, Workload, WorkloadKind,
};
use weft_proto::wire::admin::v1 as wire;

use super::*;
use crate::agent::FLOW_HISTORY;
use crate::bpf::Attachment;
use crate::compile::LocalityPool;
use crate::conntrack::{SweepReport, Timeouts};
use crate::datapath::CounterSource;
use crate::engine::worker::{self, EngineHandle};
use crate::engine::{Closer, Engine, EngineConfig, NodeResource, Update};
use crate::flow::memory::MemoryKernel;
use crate::flow::{FlowLog, pump};
use crate::http::{self, MetricsAddress};
use crate::interfaces::LocalInterfaces;
use crate::metrics::Metrics;
use crate::tables::{BackendId, memory};
use crate::xds::SharedStatus;

mod flows;
mod run_dir;

struct NoConnections;

impl Closer for NoConnections {
    fn close(&mut self, _: Vec<BackendId>) {}
}

struct Fixed;

impl CounterSource for Fixed {
    fn read(&self) -> Vec<(&'static str, u64)> {
        vec![("refused", 3)]
    }
}

struct Agent {
    admin: AdminService,
    kernel: MemoryKernel,
    drain: CancellationToken,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.drain.cancel();
    }
}

async fn set(engine: &EngineHandle, resource: Resource) {
    let mut update = Update::new(resource.resource_type());
    let name = resource.name();
    let resource = NodeResource::new(resource, &mut LocalityPool::default());
    let resource = resource.expect("one for agents");
    update.upserts.push((name, resource));
    engine.apply(update).await.expect("the engine runs");
}

fn agent() -> Agent {
    let drain = CancellationToken::new();
    let engine = Engine::new(
        memory::tables(20_000),
        memory::policy_tables(20_000),
        EngineConfig::new("n1"),
    )
    .expect("empty");
    let (engine, _) = worker::start(engine, Box::new(NoConnections), drain.clone());
    let facts = SharedFacts::new(AgentFacts {
        node: "n1".into(),
        control: "in-process".into(),
        started: Instant::now(),
        programs: Vec::new(),
        pods: None,
        routed: None,
        warnings: vec!["mind this".into()],
        counters: Some(Arc::new(Fixed)),
    });
    let xds = SharedStatus::default();
    let kernel = MemoryKernel::new(flows::judge);
    let observation = kernel.observation();
    let observed = Observed {
        log: FlowLog::new(FLOW_HISTORY),
        connections: observation.connections,
        check: observation.check,
        sweeps: SweepReport::default(),
        timeouts: Timeouts::default(),
        metrics: Arc::new(Metrics::new()),
    };
    let log = observed.log.clone();
    let (events, handle, token) = (observation.events, engine.clone(), drain.clone());
    let (told, metrics) = (mpsc::channel(1).1, Arc::clone(&observed.metrics));
    tokio::spawn(pump(events, told, handle, log, metrics, token));
    let admin = AdminService {
        engine,
        xds,
        facts,
        observed,
        identities: Default::default(),
    };
    Agent {
        admin,
        kernel,
        drain,
    }
}

fn endpoint(address: &str, health: Health) -> Endpoint {
    Endpoint {
        address: address.parse().expect("address"),
        weight: 2,
        priority: 0,
        health,
        locality: Locality {
            zone: "z1".into(),
            node: "n1".into(),
        },
    }
}

async fn fill(engine: &EngineHandle) {
    set(
        engine,
        Resource::Cluster(Cluster {
            name: "shop/cart:80".into(),
            endpoints: EndpointSource::Eds("shop/cart:80".into()),
            policy: LbPolicy::Maglev,
            affinity: Some(Duration::from_secs(60)),
            locality: LocalityMode::None,
            connect_timeout: None,
            max_connections: None,
            outlier: None,
            unaccelerated: false,
            http: false,
        }),
    )
    .await;
    set(
        engine,
        Resource::Endpoints(ClusterEndpoints {
            name: "shop/cart:80".into(),
            endpoints: vec![
                endpoint("10.0.0.1:8080", Health::Healthy),
                endpoint("10.0.0.2:8080", Health::Draining),
                endpoint("10.0.0.3:8080", Health::Unhealthy),
            ],
        }),
    )
    .await;
    set(
        engine,
        Resource::Listener(Listener {
            name: "shop/cart:80".into(),
            service: Some(ServiceRef {
                namespace: "shop".into(),
                name: "cart".into(),
                port_name: "http".into(),
            }),
            addresses: vec!["10.96.0.1".parse().expect("address")],
            port: 80,
            protocol: Protocol::Tcp,
            cluster: "shop/cart:80".into(),
            layer: weft_proto::model::Layer::Four,
            side: weft_proto::model::Side::Inside,
            source_ranges: Vec::new(),
            health_check_port: None,
            idle_timeout: None,
            max_duration: None,
            connections_per_second: None,
        }),
    )
    .await;
    set(
        engine,
        Resource::Workload(Workload {
            name: "pod/shop/cart-0".into(),
            kind: WorkloadKind::Pod,
            addresses: vec!["10.0.0.1".parse().expect("address")],
            node: "n1".into(),
            zone: "z1".into(),
            namespace: "shop".into(),
            service_account: "cart".into(),
            labels: BTreeMap::from([("app".into(), "cart".into())]),
            spiffe_id: String::new(),
            host_network: false,
            unaccelerated: false,
            out_of_mesh: false,
            mtls: Default::default(),
            ports: Vec::new(),
        }),
    )
    .await;
    set(
        engine,
        Resource::Problem(Problem {
            origin: "shop.yaml:3".into(),
            object: "Service shop/x".into(),
            field: "spec.ports[0].port".into(),
            message: "is 0".into(),
            severity: Severity::Error,
        }),
    )
    .await;
}

async fn all<T>(stream: tonic::Streaming<T>) -> Vec<T> {
    use futures::TryStreamExt;
    stream.try_collect().await.expect("a whole list")
}

#[tokio::test]
async fn tells_services_backends_workloads_and_status() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = RunDir::lock(dir.path()).expect("free");
    let agent = agent();
    let listener = run.listen().expect("socket");
    tokio::spawn(serve(agent.admin.clone(), listener, agent.drain.clone()));
    fill(&agent.admin.engine).await;
    let mut client = connect(dir.path()).await.expect("an agent");

    let services = client
        .list_services(wire::ListRequest {})
        .await
        .expect("answer");
    let services = all(services.into_inner()).await;
    let [service] = services.as_slice() else {
        panic!("{services:?}");
    };
    assert_eq!(
        (service.service.as_str(), service.port_name.as_str()),
        ("shop/cart", "http")
    );
    assert_eq!(
        (service.ready, service.draining, service.unhealthy),
        (1, 1, 1)
    );
    assert_eq!(
        (service.policy.as_str(), service.affinity_seconds),
        ("Maglev", 60)
    );
    assert_eq!(service.ids.len(), 1);

    let backends = client
        .list_backends(wire::ListRequest {})
        .await
        .expect("answer");
    let backends = all(backends.into_inner()).await;
    let seen: Vec<_> = backends
        .iter()
        .map(|b| {
            (
                b.address.as_str(),
                b.health.as_str(),
                b.selected,
                b.workload.as_str(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("10.0.0.1", "healthy", true, "pod/shop/cart-0"),
            ("10.0.0.2", "draining", false, ""),
            ("10.0.0.3", "unhealthy", false, ""),
        ]
    );

    let workloads = client
        .list_workloads(wire::ListRequest {})
        .await
        .expect("answer");
    let workloads = all(workloads.into_inner()).await;
    assert_eq!(workloads[0].name, "cart-0");
    assert!(workloads[0].local);

    let status = client
        .get_status(wire::GetStatusRequest {})
        .await
        .expect("answer");
    let status = status.into_inner();
    assert!(!status.attached && !status.synced);
    assert_eq!(status.reasons.len(), 2, "{:?}", status.reasons);
    assert_eq!(status.problems[0].origin, "shop.yaml:3");
    assert_eq!(status.counters[0].value, 3);
    assert_eq!(status.warnings, ["mind this"]);
    assert!(
        status
            .maps
            .iter()
            .any(|m| m.name == "backends" && m.entries == 1)
    );
}

#[tokio::test]
async fn long_lists_come_in_pages_and_whole() {
    let agent = agent();
    let engine = &agent.admin.engine;
    let mut update = Update::new(weft_proto::resource::ResourceType::Workload);
    for index in 0..3_500 {
        let name = format!("node/{index}");
        let node = Workload {
            name: name.clone(),
            kind: WorkloadKind::Node,
            addresses: Vec::new(),
            node: index.to_string(),
            zone: String::new(),
            namespace: String::new(),
            service_account: String::new(),
            labels: BTreeMap::new(),
            spiffe_id: String::new(),
            host_network: false,
            unaccelerated: false,
            out_of_mesh: false,
            mtls: Default::default(),
            ports: Vec::new(),
        };
        update.upserts.push((name, NodeResource::Workload(node)));
    }
    engine.apply(update).await.expect("the engine runs");
    let dir = tempfile::tempdir().expect("a directory");
    let run = RunDir::lock(dir.path()).expect("free");
    let listener = run.listen().expect("socket");
    tokio::spawn(serve(agent.admin.clone(), listener, agent.drain.clone()));
    let mut client = connect(dir.path()).await.expect("an agent");
    let listed = client
        .list_workloads(wire::ListRequest {})
        .await
        .expect("answer");
    let mut names: Vec<_> = all(listed.into_inner())
        .await
        .into_iter()
        .map(|w| w.name)
        .collect();
    names.dedup();
    assert_eq!(names.len(), 3_500);
}

/// The smallest HTTP client.
async fn get(address: std::net::SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("a server");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn ready_when_attached_and_in_sync_and_not_before() {
    let agent = agent();
    fill(&agent.admin.engine).await;
    let any = MetricsAddress {
        address: ([127, 0, 0, 1], 0).into(),
        explicit: true,
    };
    let listener = http::bind(any).await.expect("a free port").expect("bound");
    let address = listener.local_addr().expect("bound");
    let metrics = Arc::new(Metrics::new());
    tokio::spawn(http::serve(
        listener,
        agent.admin.clone(),
        metrics,
        agent.drain.clone(),
    ));

    let answer = get(address, "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("programs are not attached yet"), "{answer}");
    assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    agent.admin.facts.update(|f| {
        f.programs.push(Attachment {
            program: "connect4".into(),
            hook: "cgroup/connect4".into(),
            error: None,
        });
    });
    agent.admin.xds.update(|s| s.synced = true);
    // Nobody has looked for the pod's interface.
    let answer = get(address, "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("such as pod/shop/cart-0"), "{answer}");
    let looked = LocalInterfaces {
        settled: true,
        ..LocalInterfaces::default()
    };
    let told = agent.admin.engine.interfaces(looked).await;
    told.expect("the engine runs");
    assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
    let text = get(address, "/metrics").await;
    for line in [
        "weft_synced 1",
        "weft_map_entries{map=\"backends\"} 1",
        "weft_kernel_events_total{counter=\"refused\"} 3",
        "weft_service_connections_open{service=\"shop/cart\",port=\"80\",protocol=\"tcp\"} 0",
        "weft_resources{type=\"Listener\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_taken_address_matters_only_to_who_asked_for_it() {
    let taken = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a port");
    let address = taken.local_addr().expect("bound");
    let wanted = |explicit| MetricsAddress { address, explicit };
    assert!(http::bind(wanted(false)).await.expect("goes on").is_none());
    let error = http::bind(wanted(true)).await.expect_err("insists");
    assert!(error.to_string().contains("--metrics"), "{error}");
}
