//! Everything the agent has to be told.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use weft_identity::TrustDomain;

use crate::accel::Acceleration;
use crate::bpf::MapSizes;
use crate::flow::WORKLOAD_PAIRS;
use crate::http::MetricsAddress;
use crate::otlp::ExportConfig;
use crate::proxy::ProxyConfig;
use crate::routing::HostRouting;
use crate::tables::policy::Verdict;
use crate::xds::{Connect, InProcess, KnownRoots, TcpConnect, TlsConnect};

/// Whom the agent takes its resources from.
#[derive(Clone, Debug)]
pub enum ControlTarget {
    /// "ADDRESS:PORT", plain text.
    Tcp(String),
    /// TLS and a token.
    Tls(TlsConnect),
    /// A server in this process.
    InProcess(InProcess),
}

impl ControlTarget {
    /// The roots by which it is known, where it has to prove itself.
    pub(crate) fn roots(&self) -> Option<KnownRoots> {
        match self {
            Self::Tls(tls) => Some(tls.roots.clone()),
            Self::Tcp(_) | Self::InProcess(_) => None,
        }
    }

    /// Opens connections.
    #[must_use]
    pub fn connect(&self) -> Box<dyn Connect> {
        match self {
            Self::Tcp(address) => Box::new(TcpConnect {
                address: address.clone(),
            }),
            Self::Tls(tls) => Box::new(tls.clone()),
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
    /// Where load balancers ask whether this node takes traffic.
    pub node_health: Option<SocketAddr>,
    /// Map sizes that differ from the defaults.
    pub map_sizes: MapSizes,
    /// A draining endpoint's connections are closed after this time.
    pub drain_timeout: Duration,
    /// Flows that are kept for `weft flows`.
    pub flow_history: NonZeroUsize,
    /// What becomes of connections about which no policy says anything.
    pub default_policy: Verdict,
    /// Pairs of workloads that have metrics of their own.
    pub workload_pairs: NonZeroUsize,
    /// Whether requests through Envoy are counted.
    pub request_metrics: bool,
    /// Where traces go, if they go anywhere.
    pub export: Option<ExportConfig>,
    /// Whether the kernel tells what happens to connections.
    pub flow_events: bool,
    /// Same-node acceleration.
    pub acceleration: Acceleration,
    /// Trust domain of the mesh: certificates of no other are asked for.
    pub trust_domain: TrustDomain,
    /// Names of the interfaces that lead to other nodes and to the outside; none: see [`crate::uplinks::UplinkChoice`].
    pub uplinks: Vec<String>,
    /// What carries packets between pods of this node and of others.
    pub host_routing: HostRouting,
    /// Services are for clients outside the cluster as well.
    pub node_ports: bool,
    /// The node's Envoy, if it has one.
    pub proxy: Option<ProxyConfig>,
}

/// Default of [`AgentConfig::flow_history`]: about 10 MB.
pub const FLOW_HISTORY: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

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
            node_health: None,
            map_sizes: MapSizes::default(),
            drain_timeout: Duration::from_secs(600),
            flow_history: FLOW_HISTORY,
            default_policy: Verdict::Allow,
            workload_pairs: WORKLOAD_PAIRS,
            request_metrics: false,
            export: None,
            flow_events: true,
            acceleration: Acceleration::default(),
            trust_domain: TrustDomain::default(),
            uplinks: Vec::new(),
            host_routing: HostRouting::default(),
            node_ports: true,
            proxy: None,
        }
    }
}
