//! The command line: every option is a `WEFT_…` variable and a key of the `--config` file as well.

mod agent;
mod ca;
mod control;
mod file;
mod flows;
mod look;
mod map_size;
mod mesh;
mod otlp;
mod remote;
mod security;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub(crate) use agent::{AgentArgs, EnvoyProcessArgs, Metrics, Switch};
pub(crate) use ca::{CaArgs, CaCommand, CaVerb, RotateArgs};
pub(crate) use control::{ControlArgs, SourceArgs, SourcePlace, UpArgs};
pub(crate) use flows::{CheckArgs, ConntrackArgs, FlowsArgs};
pub(crate) use look::{CleanupArgs, DoctorArgs, ListArgs, OutputFormat, RunDir, StatusArgs};
pub(crate) use map_size::MapSize;
pub(crate) use mesh::MeshArgs;
pub(crate) use otlp::OtlpArgs;
pub(crate) use remote::RemoteAgentArgs;
pub(crate) use security::{Protection, SecurityArgs};
pub(crate) use watch::{TopArgs, UiArgs};

/// Sidecarless service mesh: services and load balancing in the kernel, by eBPF.
///
/// Every option is also a variable (--run-dir is WEFT_RUN_DIR) and a key of the file that --config names
/// (run-dir: /run/weft). The command line wins over variables, variables over the file, the file over defaults.
///
/// Exit status: 0 done, 1 failed, 2 wrong usage.
#[derive(Debug, Parser)]
#[command(
    name = "weft",
    version,
    max_term_width = 120,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    /// YAML file with options: keys are option names without the dashes
    #[arg(
        long,
        global = true,
        display_order = 900,
        env = "WEFT_CONFIG",
        value_name = "FILE"
    )]
    pub(crate) config: Option<PathBuf>,

    /// Logging of the process itself.
    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Where log lines go and how they look.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// Least severe level that is logged to stderr: error, warn, info, debug, trace; or per part, as in
    /// "info,weft_dataplane=debug"
    #[arg(
        long,
        global = true,
        env = "WEFT_LOG",
        value_name = "LEVEL",
        default_value = "info"
    )]
    pub(crate) log: String,

    /// Form of log lines
    #[arg(
        long,
        global = true,
        env = "WEFT_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "human"
    )]
    pub(crate) log_format: LogFormat,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Human,
    /// One JSON object per line.
    Json,
}

/// The verbs of `weft`.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run control plane and agent for this node in one process
    Up(Box<UpArgs>),
    /// Run the control plane alone
    Control(Box<ControlArgs>),
    /// Run the node agent alone
    Agent(Box<RemoteAgentArgs>),
    /// Show whether the agent is synced and attached, and what stands in the way
    Status(StatusArgs),
    /// List services as the kernel has them
    Services(ListArgs),
    /// List the backends behind the services
    Backends(ListArgs),
    /// List pods and nodes
    Workloads(ListArgs),
    /// List the objects that say who may talk to whom
    Policies(ListArgs),
    /// List the certificates of this node's workloads, by namespace/service account
    Certificates(ListArgs),
    /// Show what happens to connections: opened, closed, denied, audited, expired
    Flows(FlowsArgs),
    /// Watch services and workloads live: connections, bytes, times, refusals
    Top(TopArgs),
    /// Serve a page with the live map of who talks to whom
    Ui(UiArgs),
    /// List the connections that the kernel remembers
    Conntrack(ConntrackArgs),
    /// Tell whether a connection would be let through, by which policy, and why
    Check(CheckArgs),
    /// Show what this machine offers and what is lost without it
    Doctor(DoctorArgs),
    /// Remove everything that an agent ever attached or pinned
    Cleanup(CleanupArgs),
    /// Change the mesh's CA
    Ca(CaCommand),
    /// Become the node's Envoy: started by the agent, not by people
    #[command(hide = true)]
    EnvoyProcess(EnvoyProcessArgs),
}

/// Options that contradict each other, or ask for what this version does not have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refusal(String);

impl Refusal {
    fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl Cli {
    /// Parses the process's arguments, variables and config file.
    ///
    /// # Errors
    /// Wrong usage, help and version, as clap words them.
    pub(crate) fn from_process() -> Result<Self, clap::Error> {
        Self::from_args(std::env::args_os().collect())
    }

    /// As [`Cli::from_process`], from these arguments, the first of which is the program's name.
    fn from_args(args: Vec<OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let path = file::path(&args, std::env::var_os("WEFT_CONFIG"));
        if let Some(path) = &path {
            command = file::read(path)
                .and_then(|options| file::apply(command.clone(), &options, path))
                .map_err(|e| command.error(ErrorKind::ValueValidation, e))?;
        }
        let matches = command.clone().try_get_matches_from(args)?;
        let cli = Self::from_arg_matches(&matches).map_err(|e| e.format(&mut command))?;
        cli.check()
            .map_err(|e| command.error(ErrorKind::ArgumentConflict, e))?;
        Ok(cli)
    }

    fn check(&self) -> Result<(), Refusal> {
        match &self.verb {
            Verb::Up(up) => up.check(),
            Verb::Control(control) => control.check(),
            Verb::Agent(agent) => agent.check(),
            Verb::Ui(ui) => ui.check(),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
