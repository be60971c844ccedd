//! Options of the verbs that watch who talks to whom.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::Refusal;
use super::look::{OutputArgs, RunDir};

/// Which agents are watched.
#[derive(Debug, Args)]
pub(crate) struct WatchedArgs {
    #[command(flatten)]
    pub(crate) run_dir: RunDir,

    /// Agent to watch, by its run directory or by a socket that leads to it (`ssh -L n2.sock:/run/weft/agent.sock n2`),
    /// repeatable [default: the one of --run-dir]
    #[arg(long, env = "WEFT_AGENT", value_name = "PATH", value_delimiter = ',')]
    pub(crate) agent: Vec<PathBuf>,
}

impl WatchedArgs {
    /// Where they are.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        match self.agent.is_empty() {
            true => vec![self.run_dir.path.clone()],
            false => self.agent.clone(),
        }
    }
}

/// Options of `weft top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) watched: WatchedArgs,

    /// How far back rates and times are taken from, as in "10s"; at most an hour
    #[arg(
        long,
        env = "WEFT_WINDOW",
        value_name = "TIME",
        default_value = "10s",
        value_parser = humantime::parse_duration
    )]
    pub(crate) window: Duration,

    /// Print one table and end, after looking for 2 seconds; so it is also where the output is no terminal
    #[arg(long, env = "WEFT_ONCE")]
    pub(crate) once: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options of `weft ui`.
#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    #[command(flatten)]
    pub(crate) watched: WatchedArgs,

    /// Where the page is served
    #[arg(
        long,
        env = "WEFT_UI_LISTEN",
        value_name = "ADDR:PORT",
        default_value_t = DEFAULT_UI
    )]
    pub(crate) ui_listen: SocketAddr,

    /// File with the token that a browser has to give; needed where --ui-listen is not on loopback
    #[arg(long, env = "WEFT_UI_TOKEN_FILE", value_name = "FILE")]
    pub(crate) ui_token_file: Option<PathBuf>,

    /// Name by which browsers may call this server, repeatable: all others than its address and localhost are refused, so
    /// that no other site's page can talk to it
    #[arg(long, env = "WEFT_UI_HOST", value_name = "NAME", value_delimiter = ',')]
    pub(crate) ui_host: Vec<String>,
}

const DEFAULT_UI: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 15_030);

impl UiArgs {
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.ui_listen.ip().is_loopback() || self.ui_token_file.is_some() {
            return Ok(());
        }
        Err(Refusal::new(format!(
            "--ui-listen {}: whoever reaches it would see all connections: give a token with --ui-token-file, or listen on 127.0.0.1 and come over `ssh -L`",
            self.ui_listen
        )))
    }
}
