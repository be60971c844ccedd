//! Options of the verbs that look at connections.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::look::{OutputArgs, RunDir};

/// Options of `weft flows`.
#[derive(Debug, Args)]
pub(crate) struct FlowsArgs {
    /// Go on with what happens from now on, until interrupted
    #[arg(short, long, env = "WEFT_FOLLOW")]
    pub(crate) follow: bool,

    /// Only the newest N of what the agent remembers [default: all of it; with --follow: nothing]
    #[arg(short = 'n', long, env = "WEFT_LAST", value_name = "N")]
    pub(crate) last: Option<u32>,

    /// Only what happened in the last TIME, as in "90s" or "5m"; with --follow: and from now on
    #[arg(
        long,
        env = "WEFT_SINCE",
        value_name = "TIME",
        value_parser = humantime::parse_duration
    )]
    pub(crate) since: Option<Duration>,

    #[command(flatten)]
    pub(crate) ends: EndArgs,

    /// Only these
    #[arg(long, env = "WEFT_VERDICT", value_name = "VERDICT")]
    pub(crate) verdict: Option<VerdictArg>,

    #[command(flatten)]
    pub(crate) run_dir: RunDir,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options of `weft conntrack`.
#[derive(Debug, Args)]
pub(crate) struct ConntrackArgs {
    #[command(flatten)]
    pub(crate) ends: EndArgs,

    #[command(flatten)]
    pub(crate) run_dir: RunDir,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Which connections are meant.
#[derive(Debug, Args)]
pub(crate) struct EndArgs {
    /// Only those opened by NAMESPACE/POD (or its owner), a NAMESPACE, an address or a CIDR
    #[arg(long, env = "WEFT_FROM", value_name = "WHO", default_value = "")]
    pub(crate) from: String,

    /// Only those to NAMESPACE/POD (or its owner), NAMESPACE/SERVICE, a NAMESPACE, an address or a CIDR
    #[arg(long, env = "WEFT_TO", value_name = "WHO", default_value = "")]
    pub(crate) to: String,
}

/// Value of `--verdict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerdictArg {
    /// Let through.
    Allowed,
    /// Refused.
    Denied,
    /// Let through, though an audited policy would have refused.
    Audited,
}

impl VerdictArg {
    /// As the agent spells it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Audited => "audited",
        }
    }
}

/// Options of `weft check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Who opens the connection: NAMESPACE/POD or an address
    #[arg(value_name = "FROM")]
    pub(crate) from: String,

    /// To whom: NAMESPACE/POD, NAMESPACE/SERVICE or an address (IPv6 with a port in brackets); then :PORT, then /tcp,
    /// /udp, /sctp or /icmp. Without a port: all ports of the service, or those that services of the pod send to
    #[arg(value_name = "TO[:PORT][/PROTOCOL]")]
    pub(crate) to: Destination,

    /// Exit with 1 unless all of it is allowed
    #[arg(long, env = "WEFT_EXIT_CODE")]
    pub(crate) exit_code: bool,

    #[command(flatten)]
    pub(crate) run_dir: RunDir,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) use destination::Destination;

mod destination;
