//! A pair of pods on a node of its own, with an agent or without.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weft_lab::{Lab, LabBuilder, Node, Pod, PodSpec, Process, Weft, WeftOptions, naive};

use crate::load::{Job, Outcome, Polled};
use crate::plan::PORT;
use crate::sidecars::programs;
use crate::site::{LoadClient, SERVER_THREADS, serve_as, serve_blocking};

const READY: Duration = Duration::from_secs(120);

/// What is between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    /// No mesh.
    Plain,
    /// An agent without acceleration.
    Off,
    /// No mesh, but redirection without any care ([`naive`]).
    Naive,
    /// An agent with acceleration, of which the client has opted out.
    OptedOut,
    /// An agent with acceleration.
    Accelerated,
    /// An agent that accelerates sockets that block, too.
    Eager,
}

impl Way {
    pub(super) const ALL: [Self; 6] = [
        Self::Plain,
        Self::Naive,
        Self::Off,
        Self::OptedOut,
        Self::Accelerated,
        Self::Eager,
    ];

    fn slug(self) -> &'static str {
        match self {
            Self::Plain => "bare",
            Self::Naive => "naive",
            Self::Off => "off",
            Self::OptedOut => "opted",
            Self::Accelerated => "accel",
            Self::Eager => "eager",
        }
    }

    /// As in tables.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Plain => "no mesh",
            Self::Naive => "naive",
            Self::Off => "acceleration off",
            Self::OptedOut => "opted out",
            Self::Accelerated => "accelerated",
            Self::Eager => "eager",
        }
    }
}

/// A running pair.
pub(super) struct Site {
    pub(super) way: Way,
    pub(super) node: Node,
    pub(super) client: Pod,
    pub(super) server: Pod,
    pub(super) load: LoadClient,
    weft: Option<Weft>,
    _servers: [Process; 4],
}

/// Port of the server for new connections, which closes by RST.
pub(super) const CHURN_PORT: u16 = PORT + 1;
/// Port of the server whose sockets block.
pub(super) const BLOCKING_PORT: u16 = PORT + 2;

pub(super) fn describe(mut lab: LabBuilder, way: Way) -> LabBuilder {
    let name = way.slug();
    lab = lab.node(name);
    for pod in ["client", "server"] {
        lab = lab.pod(PodSpec::new(format!("{name}-{pod}"), name).namespace(name));
    }
    lab
}

impl Site {
    pub(super) fn start(lab: &Lab, way: Way) -> Result<Self> {
        let name = way.slug();
        let pod = |which: &str| lab.pod(&format!("{name}-{which}"));
        let (node, client, server) = (lab.node(name)?, pod("client")?, pod("server")?);
        if way == Way::OptedOut {
            let mut manifest = client.manifest().value();
            manifest["metadata"]["annotations"] = json!({"weft.io/acceleration": "off"});
            lab.manifests()
                .write(&format!("pod-{}", client.name()), &manifest.to_string())?;
        }
        let mode = match way {
            Way::Off => "off",
            Way::Eager => "eager",
            _ => "auto",
        };
        let options = WeftOptions::default().arg("--envoy").arg("none");
        let options = options.arg("--acceleration").arg(mode);
        let weft = match way {
            Way::Plain | Way::Naive => None,
            _ => Some(Weft::up(&node, lab.manifests(), options)?),
        };
        if let Some(weft) = &weft {
            weft.wait_ready(READY)?;
        }
        if way == Way::Naive {
            naive::attach(&node)?;
        }
        let mut site = Self {
            way,
            load: LoadClient::start(lab, &client)?,
            _servers: [
                serve_as("serve-polled", &server, PORT)?,
                serve_as("serve", &server, CHURN_PORT)?,
                serve_blocking(&server, BLOCKING_PORT)?,
                programs::nginx(lab, &server)?,
            ],
            node,
            client,
            server,
            weft,
        };
        if matches!(way, Way::Accelerated | Way::Eager) {
            site.wait_accelerated()?;
        }
        Ok(site)
    }

    /// Of this pair, over connections whose ends both poll.
    pub(super) fn polled(&self, size: u32, connections: usize, millis: u64) -> Polled {
        Polled {
            target: self.server.socket_v4(PORT),
            size,
            answered: true,
            nodelay: true,
            connections,
            cores: SERVER_THREADS,
            millis,
        }
    }

    /// Rate and latency of one job.
    pub(super) fn run(&mut self, job: &Job) -> Result<(f64, f64, f64)> {
        match self.load.run(job)? {
            Outcome::Rate {
                per_second,
                latency,
                failed,
            } => {
                ensure!(failed == 0, "{}: {failed} failed", self.way.title());
                Ok((per_second, latency.p50_us, latency.p99_us))
            }
            other => bail!("the load client answered {other:?}"),
        }
    }

    /// Until bytes do go from socket to socket.
    fn wait_accelerated(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY;
        while self.accelerated_bytes()? == 0 {
            ensure!(Instant::now() < deadline, "nothing is accelerated");
            let job = self.polled(64, 1, 50);
            self.run(&Job::Polled(job))?;
        }
        Ok(())
    }

    /// Bytes that went from socket to socket so far; none without an agent.
    pub(super) fn accelerated_bytes(&self) -> Result<u64> {
        let Some(weft) = &self.weft else { return Ok(0) };
        let status: Value = serde_json::from_str(&weft.cli(&["status", "-o", "json"])?.stdout)?;
        let counters = status.get("counters").and_then(Value::as_array);
        let named = |c: &&Value| c.get("name").and_then(Value::as_str) == Some("accelerated_bytes");
        let value = counters
            .into_iter()
            .flatten()
            .find(named)
            .and_then(|c| c.get("value"));
        // 64-bit numbers may be text in JSON.
        let number = value.and_then(|v| v.as_u64().or_else(|| v.as_str()?.parse().ok()));
        Ok(number.unwrap_or_default())
    }
}
