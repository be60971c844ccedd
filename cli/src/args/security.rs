//! What protects the way between control plane and agents.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use weft_identity::token::{TokenError, TokenFile};

use super::Refusal;

/// How control plane and agent trust each other.
#[derive(Debug, Args)]
pub(crate) struct SecurityArgs {
    /// Plain text without authentication between control plane and agents, for labs. Not needed on loopback
    #[arg(long, env = "WEFT_INSECURE")]
    pub(crate) insecure: bool,

    /// File with the secret by which agents prove that they belong to the mesh, the same on all nodes (`openssl rand -hex 32`, mode 0600). With it
    /// both sides speak TLS. Read anew when it changes
    #[arg(long, env = "WEFT_JOIN_TOKEN_FILE", value_name = "FILE")]
    pub(crate) join_token_file: Option<PathBuf>,

    /// In Kubernetes: service account of the agents. With it the control plane speaks TLS, lets in pods of this account, each as its node's
    /// agent, and asks the API server whose a token is (--join-token-file of the agent: a projected token for the audience weft.io/control)
    #[arg(
        long,
        env = "WEFT_AGENT_ACCOUNT",
        value_name = "NAMESPACE/NAME",
        conflicts_with_all = ["insecure", "join_token_file"]
    )]
    pub(crate) agent_account: Option<AgentAccountName>,

    /// File with the mesh CA's root certificates: the control plane writes it, agents know the control plane by it
    #[arg(long, env = "WEFT_CA_BUNDLE", value_name = "FILE")]
    pub(crate) ca_bundle: Option<PathBuf>,
}

/// How a control plane serves agents of other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection<'a> {
    /// Plain text, to everybody who can connect.
    None,
    /// TLS, to everybody with the token of this file.
    Token(&'a Path),
    /// TLS, to pods of this service account, each as its node's agent.
    Account(&'a AgentAccountName),
}

/// Namespace and name of a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentAccountName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl FromStr for AgentAccountName {
    type Err = &'static str;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let legal = |part: &str| {
            let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
            !part.is_empty() && part.bytes().all(legal)
        };
        match s.split_once('/') {
            Some((namespace, name)) if legal(namespace) && legal(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err("give namespace and name, as in weft-system/weft-agent"),
        }
    }
}

impl SecurityArgs {
    /// What has to hold whether or not anything is listened to.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        match &self.join_token_file {
            Some(file) if self.insecure => Err(Refusal::new(format!(
                "--insecure means plain text without authentication, --join-token-file {} TLS with it: leave one out",
                file.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Whether the token protects anything. One that is not there yet may come.
    ///
    /// # Errors
    /// When it is empty, too short, or everybody can read it.
    pub(crate) fn check_files(&self) -> Result<(), TokenError> {
        let Some(file) = &self.join_token_file else {
            return Ok(());
        };
        match TokenFile::new(file).read() {
            Ok(_) => Ok(()),
            Err(TokenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// How to serve on an address.
    pub(crate) fn server(&self, address: SocketAddr) -> Result<Protection<'_>, Refusal> {
        self.check()?;
        if let Some(account) = &self.agent_account {
            return Ok(Protection::Account(account));
        }
        match &self.join_token_file {
            Some(file) => Ok(Protection::Token(file)),
            None if self.insecure || address.ip().to_canonical().is_loopback() => {
                Ok(Protection::None)
            }
            None => Err(Refusal::new(format!(
                "--listen {address} leaves this machine, and nothing says who may join: give --join-token-file FILE \
                 (`openssl rand -hex 32` makes a token), use a loopback address, or give --insecure in a lab whose network you trust"
            ))),
        }
    }

    /// Token and root certificates by which an agent and its control plane know each other; `None`: plain text.
    pub(super) fn client(
        &self,
        address: &str,
        loopback: bool,
    ) -> Result<Option<(&Path, &Path)>, Refusal> {
        self.check()?;
        if self.insecure {
            return Ok(None);
        }
        match (&self.join_token_file, &self.ca_bundle) {
            (Some(token), Some(bundle)) => Ok(Some((token, bundle))),
            (Some(_), None) => Err(Refusal::new(
                "--join-token-file needs --ca-bundle FILE, too: the root certificates that the control plane writes, so that the token is shown to nobody else",
            )),
            (None, Some(_)) => Err(Refusal::new(
                "--ca-bundle needs --join-token-file FILE, too: the token by which this agent proves that it belongs to the mesh",
            )),
            (None, None) if loopback => Ok(None),
            (None, None) => Err(Refusal::new(format!(
                "--control {address} leaves this machine: give --join-token-file FILE and --ca-bundle FILE as the control plane has them, \
                 use a loopback address or `weft up`, or give --insecure in a lab whose network you trust"
            ))),
        }
    }
}
