//! Control plane and agent in two processes, and what protects the way between them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use clap::Args;
use weft_dataplane::agent::ControlTarget;
use weft_dataplane::xds::{KnownRoots, TlsConnect};
use weft_identity::token::TokenFile;

use super::{AgentArgs, MeshArgs, Refusal, SecurityArgs};

/// Options of `weft agent`.
#[derive(Debug, Args)]
pub(crate) struct RemoteAgentArgs {
    /// Address (or name) and port of the control plane's ADS service
    #[arg(long, env = "WEFT_CONTROL", value_name = "ADDR:PORT")]
    pub(crate) control: RemoteControl,

    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    #[command(flatten)]
    pub(crate) mesh: MeshArgs,

    #[command(flatten)]
    pub(crate) security: SecurityArgs,
}

impl RemoteAgentArgs {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.target().map(|_| ())
    }

    /// How the control plane is reached.
    ///
    /// # Errors
    /// When that is not safe, or not said in full.
    pub(crate) fn target(&self) -> Result<ControlTarget, Refusal> {
        let address = self.control.to_string();
        match self.security.client(&address, self.control.is_loopback())? {
            None => Ok(ControlTarget::Tcp(address)),
            Some((token, bundle)) => Ok(ControlTarget::Tls(TlsConnect {
                address,
                roots: KnownRoots::new(bundle),
                token: TokenFile::new(token),
            })),
        }
    }
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
