//! Options of the node agent, in `weft agent` and in `weft up`.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weft_dataplane::accel;
use weft_dataplane::agent::FLOW_HISTORY;
use weft_dataplane::flow::WORKLOAD_PAIRS;
use weft_dataplane::http::MetricsAddress;
use weft_dataplane::routing;
use weft_dataplane::tables::policy::Verdict;
use weft_l7_proxy::EnvoyChoice;

use super::{MapSize, OtlpArgs, RunDir};

/// Options of the node agent.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// This node's name, as the manifests spell it
    #[arg(long, env = "WEFT_NODE", value_name = "NAME")]
    pub(crate) node: String,

    /// cgroup v2 folder where the socket hooks attach: they act on every process below it
    /// [default: the cgroup v2 root]
    #[arg(long, env = "WEFT_CGROUP", value_name = "DIR")]
    pub(crate) cgroup: Option<PathBuf>,

    /// BPF file system where maps and links are pinned, so that they outlive the agent
    #[arg(long, env = "WEFT_BPFFS", value_name = "DIR", default_value = DEFAULT_BPFFS)]
    pub(crate) bpffs: PathBuf,

    #[command(flatten)]
    pub(crate) run_dir: RunDir,

    /// Interface by which packets of other nodes and of clients outside the cluster come and go, repeatable [default: those that
    /// a route to a network leads to, but bridges without a default route]
    #[arg(long, env = "WEFT_UPLINK", value_name = "IFACE", value_delimiter = ',')]
    pub(crate) uplink: Vec<String>,

    /// What carries packets between pods of this node and of others
    #[arg(
        long,
        env = "WEFT_HOST_ROUTING",
        value_name = "BY",
        default_value = "auto"
    )]
    pub(crate) host_routing: HostRouting,

    /// Whether services are served to clients outside the cluster, as their manifests say: at node ports, external addresses and
    /// load balancers' addresses
    #[arg(
        long,
        env = "WEFT_NODE_PORTS",
        value_name = "SWITCH",
        default_value = "on"
    )]
    pub(crate) node_ports: Switch,

    /// Where /metrics, /healthz and /readyz are served, or "none" [default: 127.0.0.1:15020]
    #[arg(long, env = "WEFT_METRICS", value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<Metrics>,

    /// Where load balancers ask over HTTP whether this node takes traffic: /healthz answers 200 when it does, as kube-proxy at port
    /// 10256 [default: nowhere]
    #[arg(long, env = "WEFT_NODE_HEALTH", value_name = "ADDR:PORT")]
    pub(crate) node_health: Option<SocketAddr>,

    /// Entries that a map can hold, repeatable [default: see `weft status`]. Takes effect when the map is made
    #[arg(
        long,
        env = "WEFT_MAP_SIZE",
        value_name = "NAME=ENTRIES",
        value_delimiter = ','
    )]
    pub(crate) map_size: Vec<MapSize>,

    /// How long connections to a draining backend may live before they are closed, as in "30s" or "1h"
    #[arg(
        long,
        env = "WEFT_DRAIN_TIMEOUT",
        value_name = "TIME",
        default_value = "10m",
        value_parser = humantime::parse_duration
    )]
    pub(crate) drain_timeout: Duration,

    /// Flows that are kept for `weft flows`
    #[arg(long, env = "WEFT_FLOW_HISTORY", value_name = "FLOWS", default_value_t = FLOW_HISTORY)]
    pub(crate) flow_history: NonZeroUsize,

    /// Whether the kernel tells what happens to connections. Without it there are no flows, no traces, and no metrics between
    /// workloads; policy and connection tracking stay
    #[arg(
        long,
        env = "WEFT_FLOW_EVENTS",
        value_name = "SWITCH",
        default_value = "on"
    )]
    pub(crate) flow_events: Switch,

    /// Pairs of workloads that have series of their own in /metrics; all others share one, called "overflow"
    #[arg(long, env = "WEFT_METRICS_PAIRS", value_name = "PAIRS", default_value_t = WORKLOAD_PAIRS)]
    pub(crate) metrics_pairs: NonZeroUsize,

    /// Whether requests through Envoy are counted and timed by pairs of workloads: Envoy then tells the agent of each
    #[arg(
        long,
        env = "WEFT_REQUEST_METRICS",
        value_name = "SWITCH",
        default_value = "off"
    )]
    pub(crate) request_metrics: Switch,

    /// Envoy for layer 7: a path, "none", or "auto" for `envoy` on PATH, then the one that setup installed. The
    /// agent starts it, and starts it again when it ends
    #[arg(long, env = "WEFT_ENVOY", value_name = "PATH", default_value = "auto")]
    pub(crate) envoy: EnvoyChoice,

    /// Nice value of Envoy's threads: one serves all pods of the node, and by itself gets no more of a busy processor than each of them
    #[arg(
        long,
        env = "WEFT_ENVOY_NICE",
        value_name = "NICE",
        default_value_t = ENVOY_NICE,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(-20..=19)
    )]
    pub(crate) envoy_nice: i32,

    /// Same-node acceleration: whose connections between pods of this node bypass TCP. Where the kernel lacks it, nobody's.
    /// docs/acceleration.md says whose programs have to opt out before it is switched on
    #[arg(
        long,
        env = "WEFT_ACCELERATION",
        value_name = "MODE",
        default_value = "off"
    )]
    pub(crate) acceleration: Acceleration,

    /// Bytes that may be sent past TCP and not read yet; past them that direction of the connection goes back to TCP
    #[arg(long, env = "WEFT_ACCELERATION_BOUND", value_name = "BYTES", default_value_t = accel::BOUND)]
    pub(crate) acceleration_bound: NonZeroU32,

    /// Whether connections within one pod, over its loopback interface, bypass TCP as well
    #[arg(
        long,
        env = "WEFT_ACCELERATION_LOOPBACK",
        value_name = "SWITCH",
        default_value = "off"
    )]
    pub(crate) acceleration_loopback: Switch,

    /// What happens to connections about which no policy says anything
    #[arg(
        long,
        env = "WEFT_DEFAULT_POLICY",
        value_name = "VERDICT",
        default_value = "allow"
    )]
    pub(crate) default_policy: DefaultPolicy,

    #[command(flatten)]
    pub(crate) otlp: OtlpArgs,
}

/// What the agent gives to the process that becomes Envoy.
#[derive(Debug, Args)]
pub(crate) struct EnvoyProcessArgs {
    /// Process that this one is to end with
    #[arg(long)]
    pub(crate) parent: i32,

    /// cgroup v2 folder to join; made if it is not there
    #[arg(long = "own-cgroup")]
    pub(crate) cgroup: PathBuf,

    /// Nice value, if it may have that
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) nice: i32,

    /// Envoy and its own words
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// Default of `--bpffs`.
/// Three times the weight of a thread with 0 (`sched_prio_to_weight` of kernel/sched/core.c).
const ENVOY_NICE: i32 = -5;
pub(crate) const DEFAULT_BPFFS: &str = "/sys/fs/bpf/weft";
/// Default of `--metrics`: given up with a warning where the port is taken, so that several agents run side by side.
const DEFAULT_METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 15_020);

/// Value of `--metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metrics(pub(crate) Option<SocketAddr>);

impl FromStr for Metrics {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if s == "none" {
            return Ok(Self(None));
        }
        let address = s.parse().map_err(|_| {
            "give an address and port as in 127.0.0.1:15020 or [::1]:15020, or \"none\"".to_owned()
        })?;
        Ok(Self(Some(address)))
    }
}

/// Value of `--acceleration`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Acceleration {
    /// Sockets that never block, as those of event loops.
    Auto,
    /// Sockets that block, too: see docs/acceleration.md for what may surprise them.
    Eager,
    /// Nobody's.
    Off,
}

impl From<Acceleration> for accel::Mode {
    fn from(acceleration: Acceleration) -> Self {
        match acceleration {
            Acceleration::Auto => Self::Auto,
            Acceleration::Eager => Self::Eager,
            Acceleration::Off => Self::Off,
        }
    }
}

/// Value of `--host-routing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostRouting {
    /// Weft's programs, from interface to interface, for as long as nobody else has a say on this node: rules of iptables or nftables,
    /// policies of IPsec.
    Auto,
    /// Weft's programs. Neither netfilter nor IPsec is asked about these packets.
    Bpf,
    /// The node's IP stack.
    Stack,
}

impl From<HostRouting> for routing::HostRouting {
    fn from(by: HostRouting) -> Self {
        match by {
            HostRouting::Auto => Self::Auto,
            HostRouting::Bpf => Self::Bpf,
            HostRouting::Stack => Self::Stack,
        }
    }
}

/// Value of an option that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

/// Value of `--default-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DefaultPolicy {
    /// They pass.
    Allow,
    /// They are refused.
    Deny,
}

impl From<DefaultPolicy> for Verdict {
    fn from(policy: DefaultPolicy) -> Self {
        match policy {
            DefaultPolicy::Allow => Self::Allow,
            DefaultPolicy::Deny => Self::Deny,
        }
    }
}

impl AgentArgs {
    /// Where metrics are to be served, and whether that was asked for.
    pub(crate) fn metrics(&self) -> Option<MetricsAddress> {
        let explicit = self.metrics.is_some();
        let Metrics(wanted) = self.metrics.unwrap_or(Metrics(Some(DEFAULT_METRICS)));
        wanted.map(|address| MetricsAddress { address, explicit })
    }
}
