//! The node agent: puts kernel side, engine, control-plane stream and local interfaces together.

mod config;
mod error;
mod news;
mod tasks;

use std::sync::Arc;
use std::time::Instant;

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use config::{AgentConfig, ControlTarget, FLOW_HISTORY};
pub use error::AgentError;

use error::task_failed;
use news::{retire_others, tell_interfaces, tell_policies};
use tasks::Tasks;

use crate::accel::{Leaving, Pods};
use crate::admin::{self, AdminService, AgentFacts, Observed, RunDir, SharedFacts};
use crate::conntrack::sweeper::Sweeper;
use crate::conntrack::{SweepReport, Timeouts};
use crate::datapath::{Datapath, KernelDatapath};
use crate::engine::worker;
use crate::engine::{Engine, EngineConfig};
use crate::flow::{self, FlowLog, RequestCounts};
use crate::health_checks;
use crate::http;
use crate::identity::Keeper;
use crate::interfaces::Interfaces;
use crate::limits;
use crate::metrics::Metrics;
use crate::otlp;
use crate::outsiders::Outsiders;
use crate::proxy::{self, AccessLog, Owners, ProxyConfig, Relay, RequestSpans, Routing};
use crate::routing::{Links, RoutedBy};
use crate::uplinks::{self, UplinkChoice, Uplinks};
use crate::xds::{Client, ClientConfig, SharedStatus};

/// Runs the agent until `drain` is cancelled; the kernel side works on.
///
/// # Errors
/// When it cannot start, or a part of it fails that it cannot do without.
pub async fn run(config: AgentConfig, drain: CancellationToken) -> Result<(), AgentError> {
    let run_dir = RunDir::lock(&config.run_dir)?;
    let (bpffs, cgroup) = (config.bpffs.clone(), config.cgroup.clone());
    let sizes = config.map_sizes.clone();
    // Loading takes the verifier's time.
    let (acceleration, events) = (config.acceleration, config.flow_events);
    let loading = tokio::task::spawn_blocking(move || {
        KernelDatapath::load(&bpffs, cgroup, &sizes, acceleration, events)
    });
    let datapath = match loading.await {
        Ok(loaded) => loaded?,
        Err(e) => return Err(task_failed("loading", &e)),
    };
    run_on(config, run_dir, Box::new(datapath), drain).await
}

/// [`run`] on any kernel side.
///
/// # Errors
/// As [`run`].
pub async fn run_on(
    mut config: AgentConfig,
    run_dir: RunDir,
    mut datapath: Box<dyn Datapath>,
    drain: CancellationToken,
) -> Result<(), AgentError> {
    let started = Instant::now();
    // When a part fails the others stop, but not whatever else the caller's token governs.
    let drain = drain.child_token();
    let listener = match config.metrics {
        Some(wanted) => http::bind(wanted).await?,
        None => None,
    };
    let health = match config.node_health {
        Some(wanted) => Some(http::bind_health(wanted).await?),
        None => None,
    };
    let control = config.control.connect();
    let facts = SharedFacts::new(AgentFacts {
        node: config.node.clone(),
        control: control.target(),
        started,
        programs: Vec::new(),
        pods: None,
        routed: None,
        warnings: datapath.warnings(),
        counters: Some(Arc::from(datapath.counters()?)),
    });
    let routing = route_to_proxy(&mut config);
    let engine = open_engine(&config, datapath.as_mut())?;
    let closer = datapath.closer()?;
    let tender = datapath.tender()?;
    let timeouts = Timeouts::default();
    let observation = datapath.observe(&timeouts)?;
    let accelerated = datapath.accelerate()?;
    // Before the first sync: entries of an earlier agent go on to serve, and without entries nothing is translated.
    let programs = datapath.attach()?;
    report(&programs, &datapath.warnings());
    facts.update(|f| f.programs = programs);

    let switch = datapath.proxy_switch()?;
    let uplink_programs = datapath.uplink_programs()?;
    let (report, routed) = watch::channel(RoutedBy::default());
    facts.update(|f| f.routed = Some(routed));
    let links = Links::new(datapath.pod_links()?).map_err(AgentError::Interfaces)?;

    let (wanted_pods, out_of_mesh) = (engine.wanted_pods(), engine.outsiders());
    let healths = engine.healths();
    let keeper = Keeper::new(
        &config.node,
        config.trust_domain.clone(),
        &config.control,
        engine.identities(),
    );
    let search = Interfaces::new(wanted_pods.clone(), datapath.pod_programs()?);
    let (search, outlook) = search.map_err(AgentError::Interfaces)?;
    facts.update(|f| f.pods = Some(outlook.report));

    let outsiders = Outsiders::new(datapath.outsiders()?).map_err(AgentError::Interfaces)?;

    let admin_socket = run_dir.listen()?;
    let (engine, engine_task) = worker::start(engine, closer, drain.clone());
    let status = SharedStatus::default();
    let metrics = Arc::new(Metrics::with_pairs(config.workload_pairs));
    let observed = Observed {
        log: FlowLog::new(config.flow_history),
        connections: observation.connections,
        check: observation.check,
        sweeps: SweepReport::default(),
        timeouts,
        metrics: Arc::clone(&metrics),
    };
    let sweeper = Sweeper {
        program: observation.sweep,
        changed: Arc::new(Notify::new()),
        ages: engine.shortest_ages(),
        timeouts,
        closing: Arc::new(Notify::new()),
        report: observed.sweeps.clone(),
        metrics: Arc::clone(&metrics),
    };
    let flow_closer = datapath.flow_closer()?;
    let (local, closing) = (outlook.interfaces.clone(), Arc::clone(&sweeper.closing));
    let (epochs, changed) = (engine.epochs(), Arc::clone(&sweeper.changed));
    let (judgements, judged) = mpsc::channel(proxy::JUDGEMENTS);
    let events = flow::pump(
        observation.events,
        judged,
        engine.clone(),
        observed.log.clone(),
        Arc::clone(&metrics),
        drain.clone(),
    );
    let admin = AdminService {
        engine: engine.clone(),
        xds: status.clone(),
        facts,
        observed,
        identities: keeper.status(),
    };
    let (sink, spans) = otlp::RequestSink::new(Arc::clone(&metrics));
    let request_spans = config.export.as_ref();
    let request_spans = request_spans.map(|e| RequestSpans::new(sink, e.sampling.clone()));
    let export = config.export.map(|export| {
        let (node, log) = (config.node.clone(), admin.observed.log.clone());
        let gather = Looks {
            admin: admin.clone(),
            metrics: Arc::clone(&metrics),
        };
        let metrics = Arc::clone(&metrics);
        otlp::export(export, node, log, spans, metrics, gather, drain.clone())
    });
    let (counts, asked) = RequestCounts::new(Arc::clone(&metrics));
    let counts = config.request_metrics.then_some(counts);
    let counting = flow::count_requests(asked, engine.clone(), Arc::clone(&metrics), drain.clone());
    let client = Client {
        config: ClientConfig::new(&config.node),
        connect: control,
        engine: engine.clone(),
        status,
        metrics: Arc::clone(&metrics),
    };

    let mut tasks = Tasks::new(drain.clone());
    tasks.spawn("engine", async {
        engine_task.await.map_err(|e| e.to_string())
    });
    let token = drain.clone();
    tasks.spawn("search for interfaces", async {
        search.run(token).await.map_err(|e| e.to_string())
    });
    let token = drain.clone();
    tasks.spawn("search for pods out of the mesh", async {
        let followed = outsiders.run(out_of_mesh, token).await;
        followed.map_err(|e| e.to_string())
    });
    let (handle, token) = (engine.clone(), drain.clone());
    tasks.spawn("news of interfaces", async {
        let told = tell_interfaces(handle, outlook.interfaces, token).await;
        told.map_err(|e| e.to_string())
    });
    let token = drain.clone();
    tasks.spawn("control plane client", async {
        client.run(token).await.map_err(|e| e.to_string())
    });
    tasks.spawn("reader of events", events);
    if let Some(export) = export {
        tasks.spawn("export of traces", export);
    }
    tasks.spawn("sweeper of connections", sweeper.run(drain.clone()));
    if let Some(accelerated) = accelerated {
        let leaving = Leaving::new(
            accelerated.leaving,
            accelerated.leaving_count,
            accelerated.leave,
        );
        let token = drain.clone();
        tasks.spawn("end of acceleration", async {
            leaving.run(token).await.map_err(|e| e.to_string())
        });
        let pods = Pods::new(
            accelerated.pods,
            accelerated.namespaces,
            config.acceleration.loopback,
            accelerated.listeners,
        );
        let pods = pods.map_err(AgentError::Interfaces)?;
        let (interfaces, wanted) = (local.clone(), wanted_pods.clone());
        let token = drain.clone();
        tasks.spawn("acceleration of pods", async {
            let followed = pods.run(interfaces, wanted, token).await;
            followed.map_err(|e| e.to_string())
        });
    }
    let (interfaces, wanted, token) = (local.clone(), wanted_pods, drain.clone());
    tasks.spawn("links to pods", async {
        let followed = links.run(interfaces, wanted, token).await;
        followed.map_err(|e| e.to_string())
    });
    let token = drain.clone();
    tasks.spawn("news of policies", async {
        tell_policies(epochs, changed, token).await;
        Ok(())
    });
    let token = drain.clone();
    tasks.spawn("end of connections", async {
        let closed = flow_closer.run(local, closing, token).await;
        closed.map_err(|e| e.to_string())
    });
    let (service, token) = (admin.clone(), drain.clone());
    tasks.spawn("admin socket", async {
        let served = admin::serve(service, admin_socket, token).await;
        served.map_err(|e| e.to_string())
    });
    if let Some(listener) = health {
        let (admin, metrics) = (admin.clone(), Arc::clone(&metrics));
        let served = http::serve_health(listener, admin, metrics, drain.clone());
        tasks.spawn("health of the node", async {
            served.await.map_err(|e| e.to_string())
        });
    }
    if let Some(listener) = listener {
        let token = drain.clone();
        tasks.spawn("metrics server", async {
            let served = http::serve(listener, admin, metrics, token).await;
            served.map_err(|e| e.to_string())
        });
    }
    let token = drain.clone();
    let choice = UplinkChoice {
        names: config.uplinks,
        has_proxy: config.proxy.is_some(),
        routing: config.host_routing,
        report,
    };
    let uplinks = Uplinks::new(uplink_programs, choice).map_err(AgentError::Interfaces)?;
    tasks.spawn("programs of uplinks", uplinks.run(token.clone()));
    if config.node_ports {
        let checks = health_checks::serve(healths, token.clone());
        tasks.spawn("health checks", async {
            checks.await;
            Ok(())
        });
    }
    match config.proxy {
        Some(ProxyConfig {
            ready,
            control: socket,
        }) => {
            let relay = Relay::new(config.control.connect(), keeper.secrets());
            let relay = relay
                .with_owners(Owners::new(engine.clone()))
                .with_log(AccessLog::new(judgements).with_counts(counts))
                .with_spans(request_spans);
            tasks.spawn(
                "hand-over to Envoy",
                proxy::follow(ready, engine.steering(), switch, routing, token.clone()),
            );
            tasks.spawn("Envoy's control plane", relay.serve(socket, token));
            tasks.spawn("counter of requests", counting);
        }
        None => tasks.spawn("hand-over to Envoy", proxy::without(switch, token)),
    }
    tasks.spawn("certificates", keeper.run(drain.clone()));
    tasks.spawn("health of backends", limits::tend(tender, drain.clone()));
    let token = drain.clone();
    tasks.spawn("retirement of earlier versions", async {
        retire_others(engine, datapath, token).await
    });
    tasks.wait().await
}

/// What the export asks for.
#[derive(Clone)]
struct Looks {
    admin: AdminService,
    metrics: Arc<Metrics>,
}

impl otlp::Gather for Looks {
    async fn gather(&self) -> Option<Vec<MetricFamily>> {
        let shot = admin::gather(&self.admin).await?;
        self.metrics.gather(&shot).ok()
    }

    async fn reached_at(&self, services: &[String]) -> Vec<(usize, otlp::Arrival)> {
        let services = services.to_vec();
        let asked = self.admin.engine.query(move |e| e.reached_at(&services));
        // An engine that has stopped: so does all else.
        asked.await.unwrap_or_default()
    }
}

/// Layer 4 does without: a node whose packets cannot be delivered to Envoy is one that has none.
fn route_to_proxy(config: &mut AgentConfig) -> Option<Routing> {
    config.proxy.as_ref()?;
    match Routing::make() {
        Ok(routing) => Some(routing),
        Err(e) => {
            tracing::error!(
                "packets cannot be delivered to Envoy: {e}: this node does without layer 7"
            );
            config.proxy = None;
            None
        }
    }
}

fn open_engine(config: &AgentConfig, datapath: &mut dyn Datapath) -> Result<Engine, AgentError> {
    let mut engine = EngineConfig::new(&config.node);
    engine.drain_timeout = config.drain_timeout;
    engine.default_policy = config.default_policy;
    engine.has_proxy = config.proxy.is_some();
    engine.node_ports = config.node_ports;
    engine.nat_ports = uplinks::ports_for_others();
    Ok(Engine::new(
        datapath.tables()?,
        datapath.policy_tables()?,
        engine,
    )?)
}

fn report(programs: &[crate::bpf::Attachment], warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    for program in programs {
        if let Some(error) = &program.error {
            tracing::error!("program {} is not attached: {error}", program.program);
        }
    }
}
