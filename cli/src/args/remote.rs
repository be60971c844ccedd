//! Control plane and agent in two processes, and what protects the way between them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::{AgentArgs, Refusal, unsupported};

/// Options of `weft agent`.
#[derive(Debug, Args)]
pub(crate) struct RemoteAgentArgs {
    /// Address (or name) and port of the control plane's ADS service
    #[arg(long, env = "WEFT_CONTROL", value_name = "ADDR:PORT")]
    pub(crate) control: RemoteControl,

    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    /// Trust domain of the workloads' SPIFFE IDs; the control plane decides it, the agent only takes the option
    #[arg(
        long,
        env = "WEFT_TRUST_DOMAIN",
        value_name = "NAME",
        default_value = "cluster.local"
    )]
    pub(crate) trust_domain: String,

    #[command(flatten)]
    pub(crate) security: SecurityArgs,
}

impl RemoteAgentArgs {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.security.check()?;
        if self.control.is_loopback() || self.security.insecure {
            return Ok(());
        }
        Err(plain_text(&format!("--control {}", self.control)))
    }
}

/// How control plane and agent trust each other.
#[derive(Debug, Args)]
pub(crate) struct SecurityArgs {
    /// Plain text without authentication between control plane and agents, for labs. Not needed on loopback
    #[arg(long, env = "WEFT_INSECURE")]
    pub(crate) insecure: bool,

    /// Shared secret by which an agent proves itself. Not in this version: refused
    #[arg(long, env = "WEFT_JOIN_TOKEN_FILE", value_name = "FILE", hide = true)]
    pub(crate) join_token_file: Option<PathBuf>,

    /// Certificates of the mesh CA. Not in this version: refused
    #[arg(long, env = "WEFT_CA_BUNDLE", value_name = "FILE", hide = true)]
    pub(crate) ca_bundle: Option<PathBuf>,
}

impl SecurityArgs {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let given = [
            ("--join-token-file", self.join_token_file.is_some()),
            ("--ca-bundle", self.ca_bundle.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(unsupported::refuse(
                option,
                "TLS between control plane and agents is",
                "leave the option out, and keep the connection on loopback or in a lab with --insecure",
            )),
            None => Ok(()),
        }
    }

    pub(super) fn check_listen(&self, address: SocketAddr) -> Result<(), Refusal> {
        self.check()?;
        if address.ip().is_loopback() || self.insecure {
            return Ok(());
        }
        Err(plain_text(&format!("--listen {address}")))
    }
}

fn plain_text(option: &str) -> Refusal {
    Refusal::new(format!(
        "{option} leaves this machine, and TLS between control plane and agents is not in this version: \
         use a loopback address or `weft up`, or give --insecure in a lab whose network you trust"
    ))
}

/// Where an agent finds its control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteControl {
    host: String,
    port: u16,
}

impl RemoteControl {
    /// Whether it can only be this machine.
    fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self
                .host
                .parse()
                .is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
    }
}

impl fmt::Display for RemoteControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for RemoteControl {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        parse(s).ok_or_else(|| {
            "give an address or name and a port, as in 10.0.0.1:15010, [fd00::1]:15010 or control.example:15010"
                .to_owned()
        })
    }
}

fn parse(s: &str) -> Option<RemoteControl> {
    if let Ok(address) = s.parse::<SocketAddr>() {
        return (address.port() != 0).then(|| RemoteControl {
            host: address.ip().to_string(),
            port: address.port(),
        });
    }
    let (host, port) = s.rsplit_once(':')?;
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
    // A name of digits and dots alone is a mistyped address.
    let name = host.chars().all(legal) && host.chars().any(|c| c.is_ascii_alphabetic());
    name.then(|| RemoteControl {
        host: host.to_owned(),
        port,
    })
}
