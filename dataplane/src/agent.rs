//! The node agent: puts kernel side, engine, control-plane stream and local interfaces together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::admin::{self, AdminService, AgentFacts, LockError, RunDir, SharedFacts};
use crate::bpf::{BpfError, MapSizes};
use crate::datapath::{Datapath, KernelDatapath};
use crate::engine::worker::{self, EngineHandle, EngineStopped};
use crate::engine::{Engine, EngineConfig};
use crate::http::{self, BindError, MetricsAddress};
use crate::metrics::Metrics;
use crate::tables::TableError;
use crate::xds::{Client, ClientConfig, Connect, InProcess, SharedStatus, TcpConnect};

/// Whom the agent takes its resources from.
#[derive(Clone, Debug)]
pub enum ControlTarget {
    /// "ADDRESS:PORT", plain text.
    Tcp(String),
    /// A server in this process.
    InProcess(InProcess),
}

impl ControlTarget {
    fn connect(&self) -> Box<dyn Connect> {
        match self {
            Self::Tcp(address) => Box::new(TcpConnect {
                address: address.clone(),
            }),
            Self::InProcess(pipe) => Box::new(pipe.clone()),
        }
    }
}

/// Everything the agent has to be told.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Name of this node, as in `Pod.spec.nodeName`.
    pub node: String,
    /// Control plane.
    pub control: ControlTarget,
    /// cgroup v2 directory whose processes' sockets are served.
    pub cgroup: PathBuf,
    /// BPF file system directory that holds pins.
    pub bpffs: PathBuf,
    /// Holds lock and admin socket.
    pub run_dir: PathBuf,
    /// Where metrics are served, if they are.
    pub metrics: Option<MetricsAddress>,
    /// Map sizes that differ from the defaults.
    pub map_sizes: MapSizes,
    /// A draining endpoint's connections are closed after this time.
    pub drain_timeout: Duration,
}

impl AgentConfig {
    /// Defaults as documented in `weft agent --help`, for everything that has one.
    #[must_use]
    pub fn new(node: impl Into<String>, control: ControlTarget, cgroup: PathBuf) -> Self {
        Self {
            node: node.into(),
            control,
            cgroup,
            bpffs: PathBuf::from("/sys/fs/bpf/weft"),
            run_dir: PathBuf::from("/run/weft"),
            metrics: Some(MetricsAddress {
                address: SocketAddr::from(([127, 0, 0, 1], 15_020)),
                explicit: false,
            }),
            map_sizes: MapSizes::default(),
            drain_timeout: Duration::from_secs(600),
        }
    }
}

/// Why the agent cannot start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The run directory.
    #[error(transparent)]
    RunDir(#[from] LockError),
    /// Loading or attaching.
    #[error(transparent)]
    Kernel(#[from] BpfError),
    /// Reading what an earlier agent left.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The metrics address.
    #[error(transparent)]
    Metrics(#[from] BindError),
    /// A task ended that should have gone on.
    #[error("{task} stopped: {reason}")]
    Task {
        /// Which.
        task: &'static str,
        /// Why, as far as it said.
        reason: String,
    },
}

/// Runs the agent until `drain` is cancelled; the kernel side works on.
///
/// # Errors
/// When it cannot start, or a part of it fails that it cannot do without.
pub async fn run(config: AgentConfig, drain: CancellationToken) -> Result<(), AgentError> {
    let run_dir = RunDir::lock(&config.run_dir)?;
    let (bpffs, cgroup) = (config.bpffs.clone(), config.cgroup.clone());
    let sizes = config.map_sizes.clone();
    // Loading takes the verifier's time.
    let loading = tokio::task::spawn_blocking(move || KernelDatapath::load(&bpffs, cgroup, &sizes));
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
    config: AgentConfig,
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
    let control = config.control.connect();
    let facts = SharedFacts::new(AgentFacts {
        node: config.node.clone(),
        control: control.target(),
        started,
        programs: Vec::new(),
        warnings: datapath.warnings(),
        counters: Some(Arc::from(datapath.counters()?)),
    });
    let engine = open_engine(&config, datapath.as_mut())?;
    let closer = datapath.closer()?;
    // Before the first sync: entries of an earlier agent go on to serve, and without entries nothing is translated.
    let programs = datapath.attach()?;
    report(&programs, &datapath.warnings());
    facts.update(|f| f.programs = programs);

    let admin_socket = run_dir.listen()?;
    let (engine, engine_task) = worker::start(engine, closer, drain.clone());
    let status = SharedStatus::default();
    let metrics = Arc::new(Metrics::new());
    let admin = AdminService {
        engine: engine.clone(),
        xds: status.clone(),
        facts,
    };
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
    tasks.spawn("control plane client", async {
        client.run(token).await.map_err(|e| e.to_string())
    });
    let (service, token) = (admin.clone(), drain.clone());
    tasks.spawn("admin socket", async {
        let served = admin::serve(service, admin_socket, token).await;
        served.map_err(|e| e.to_string())
    });
    if let Some(listener) = listener {
        let token = drain.clone();
        tasks.spawn("metrics server", async {
            let served = http::serve(listener, admin, metrics, token).await;
            served.map_err(|e| e.to_string())
        });
    }
    let token = drain.clone();
    tasks.spawn("retirement of earlier versions", async {
        retire_others(engine, datapath, token).await
    });
    tasks.wait().await
}

fn open_engine(config: &AgentConfig, datapath: &mut dyn Datapath) -> Result<Engine, AgentError> {
    let mut engine = EngineConfig::new(&config.node);
    engine.drain_timeout = config.drain_timeout;
    Ok(Engine::new(datapath.tables()?, engine)?)
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

/// How often to look whether the tables are complete.
const RETIREMENT_CHECK: Duration = Duration::from_millis(500);

/// An agent of another version serves through its own programs until these tables are complete. Holds the kernel side, whose
/// links and maps are pinned, until the agent ends.
async fn retire_others(
    engine: EngineHandle,
    datapath: Box<dyn Datapath>,
    drain: CancellationToken,
) -> Result<(), String> {
    let settled = async {
        loop {
            match engine.query(Engine::is_settled).await {
                Ok(true) => return Ok(()),
                Ok(false) => tokio::time::sleep(RETIREMENT_CHECK).await,
                Err(EngineStopped) => return Err(EngineStopped),
            }
        }
    };
    tokio::select! {
        () = drain.cancelled() => return Ok(()),
        settled = settled => if settled.is_ok()
            && let Err(e) = datapath.retire_others() {
            tracing::warn!("what another version left stays: {e}");
        },
    }
    drain.cancelled().await;
    Ok(())
}

/// Tasks that the agent cannot do without: when one ends early, all do.
struct Tasks {
    set: JoinSet<(&'static str, Result<(), String>)>,
    drain: CancellationToken,
}

impl Tasks {
    fn new(drain: CancellationToken) -> Self {
        let set = JoinSet::new();
        Self { set, drain }
    }

    fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        self.set.spawn(async move {
            // A panic is caught here, where the name of the task is known.
            let ended = match tokio::spawn(task).await {
                Ok(ended) => ended,
                Err(e) => Err(e.to_string()),
            };
            (name, ended)
        });
    }

    async fn wait(mut self) -> Result<(), AgentError> {
        let mut first = Ok(());
        while let Some(joined) = self.set.join_next().await {
            let failure = match joined {
                Ok((_, Ok(()))) if self.drain.is_cancelled() => continue,
                Ok((task, ended)) => AgentError::Task {
                    task,
                    reason: ended.err().unwrap_or_else(|| "it ended early".to_owned()),
                },
                Err(e) => task_failed("a task", &e),
            };
            if first.is_ok() {
                first = Err(failure);
            }
            // The others have nothing to do without it.
            self.drain.cancel();
        }
        first
    }
}

fn task_failed(task: &'static str, error: &JoinError) -> AgentError {
    AgentError::Task {
        task,
        reason: error.to_string(),
    }
}
