//! Options of the verbs that look at a node or tidy it up.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weft_l7_proxy::EnvoyChoice;

use super::agent::DEFAULT_BPFFS;

/// Which agent is meant.
#[derive(Debug, Args)]
pub(crate) struct RunDir {
    /// Folder of the agent's socket (agent.sock); one agent each
    #[arg(
        long = "run-dir",
        env = "WEFT_RUN_DIR",
        value_name = "DIR",
        default_value = "/run/weft"
    )]
    pub(crate) path: PathBuf,
}

/// Form of what is printed.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// A table for people, or JSON for programs
    #[arg(
        short,
        long,
        env = "WEFT_OUTPUT",
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub(crate) output: OutputFormat,
}

/// Form of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Aligned columns.
    Table,
    /// One JSON document; of flows and connections one object a line.
    Json,
}

/// Options of `weft status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) run_dir: RunDir,

    /// Wait up to so many seconds for the agent to be ready
    #[arg(long, env = "WEFT_WAIT", value_name = "SECONDS", default_value_t = 0)]
    pub(crate) wait: u32,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options of `weft services`, `weft backends`, `weft workloads` and `weft policies`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only this one; "NAMESPACE/" for all of a namespace
    #[arg(value_name = "NAMESPACE/NAME")]
    pub(crate) only: Option<String>,

    #[command(flatten)]
    pub(crate) run_dir: RunDir,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options of `weft doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Envoy to look for: a path, "none", or "auto"
    #[arg(long, env = "WEFT_ENVOY", value_name = "PATH", default_value = "auto")]
    pub(crate) envoy: EnvoyChoice,

    #[command(flatten)]
    pub(crate) run_dir: RunDir,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options of `weft cleanup`.
#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {
    /// BPF file system where the agent pinned
    #[arg(long, env = "WEFT_BPFFS", value_name = "DIR", default_value = DEFAULT_BPFFS)]
    pub(crate) bpffs: PathBuf,

    /// cgroup v2 folder where the agent attached. Not needed: programs leave it together with their pins
    #[arg(long, env = "WEFT_CGROUP", value_name = "DIR")]
    pub(crate) cgroup: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) run_dir: RunDir,

    /// Also while an agent runs: it will not notice and connections to services fail until it is started again
    #[arg(long, env = "WEFT_FORCE")]
    pub(crate) force: bool,

    /// Do not end when all is removed, but on SIGTERM: for a DaemonSet that cleans every node
    #[arg(long, env = "WEFT_STAY")]
    pub(crate) stay: bool,
}
