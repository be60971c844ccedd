//! A family's part of the lab, running.
//!
//! ```text
//!   client ──┐
//!            near node ── far node ── far
//!   near   ──┘
//! ```

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weft_lab::{Lab, LabBuilder, Node, Pod, PodSpec, Process, Weft, WeftOptions, addr};

use super::certificates::issue;
use super::envoy::{Client, Sidecar};
use super::family::Family;
use super::{ALLOWED_PATH, PORT, programs};
use crate::site::LoadClient;

const READY: Duration = Duration::from_secs(120);

/// A running site.
pub(super) struct Site {
    pub(super) family: Family,
    pub(super) client: Pod,
    pub(super) load: LoadClient,
    pub(super) nodes: Vec<Node>,
    /// Sidecars, or agents.
    pub(super) sidecars: Vec<Process>,
    pub(super) agents: Vec<Weft>,
    servers: Vec<(Pod, Process)>,
}

/// Adds nodes and pods of a family to a lab that is being described.
pub(super) fn describe(mut lab: LabBuilder, family: Family) -> LabBuilder {
    let name = family.slug();
    let pod = |which: &str, side: &str| {
        let pod = format!("{name}-{which}");
        let spec = PodSpec::new(&pod, format!("{name}-{side}")).label("app", &pod);
        let spec = spec.service_account(&pod);
        if which == "client" {
            spec
        } else {
            spec.label("serves", name)
        }
    };
    lab = lab
        .node(format!("{name}-a"))
        .pod(pod("client", "a"))
        .pod(pod("near", "a"));
    if family.has_far() {
        lab = lab.node(format!("{name}-b")).pod(pod("far", "b"));
    }
    lab
}

impl Site {
    /// Starts servers, client, and what is in between; Weft is driven by the control plane at `control`.
    pub(super) fn start(lab: &Lab, family: Family, control: &str, envoy: &Path) -> Result<Self> {
        let name = family.slug();
        let sides: &[&str] = if family.has_far() {
            &["near", "far"]
        } else {
            &["near"]
        };
        let client = lab.pod(&format!("{name}-client"))?;
        let mut servers = Vec::new();
        for side in sides {
            let pod = lab.pod(&format!("{name}-{side}"))?;
            let nginx = programs::nginx(lab, &pod)?;
            servers.push((pod, nginx));
        }
        let nodes = ["a", "b"]
            .iter()
            .take(sides.len())
            .map(|side| lab.node(&format!("{name}-{side}")));
        let mut site = Self {
            family,
            load: LoadClient::start(lab, &client)?,
            client,
            nodes: nodes.collect::<Result<_, _>>()?,
            sidecars: Vec::new(),
            agents: Vec::new(),
            servers,
        };
        if family.is_weft() {
            for node in &site.nodes {
                let mut options = WeftOptions::default().arg("--envoy").arg(envoy);
                if family.is_accelerated() {
                    options = options.arg("--acceleration").arg("auto");
                }
                site.agents.push(Weft::agent(node, control, options)?);
            }
        } else if family != Family::Direct {
            site.start_sidecars(lab, envoy)?;
        }
        Ok(site)
    }

    /// The client's knows one service; both servers' admit the client.
    fn start_sidecars(&mut self, lab: &Lab, envoy: &Path) -> Result<()> {
        let client = "spiffe://cluster.local/ns/default/sa/client";
        let certificates = match self.family {
            Family::SidecarsMtls => {
                issue(&[client, "spiffe://cluster.local/ns/default/sa/server"])?
            }
            _ => Vec::new(),
        };
        let asks = self.servers.iter().zip(self.family.services());
        let asks: Vec<_> = asks
            .map(|((pod, _), index)| (addr::service(index).v4, pod.addresses().v4))
            .collect();
        let own = Sidecar {
            asks: asks.clone(),
            admits: None,
            certificate: certificates.first(),
            others: (0, 0),
        };
        self.sidecars
            .push(programs::sidecar(lab, &self.client, envoy, &own)?);
        for (pod, _) in &self.servers {
            let admits = match certificates.is_empty() {
                true => Client::Address(self.client.addresses().v4),
                false => Client::Identity(client),
            };
            let own = Sidecar {
                asks: Vec::new(),
                admits: Some(admits),
                certificate: certificates.get(1),
                others: (0, 0),
            };
            self.sidecars
                .push(programs::sidecar(lab, pod, envoy, &own)?);
        }
        Ok(())
    }

    /// Waits until everything answers, and makes sure that nothing else does.
    pub(super) fn wait_ready(&self) -> Result<()> {
        for agent in &self.agents {
            agent.wait_ready(READY)?;
        }
        for far in [false, true].iter().take(self.servers.len()) {
            let url = self.url(*far)?;
            programs::wait_answer(&self.client, &url, READY)
                .with_context(|| self.family.slug().to_owned())?;
            if self.family.refuses_requests() {
                for (method, url) in [
                    ("POST", url.clone()),
                    ("GET", url.replace(ALLOWED_PATH, "/other")),
                ] {
                    let status = programs::status(&self.client, &url, method)?;
                    ensure!(
                        status == "403",
                        "{}: {method} {url} is forbidden, and was answered with {status}",
                        self.family.slug()
                    );
                }
            }
        }
        Ok(())
    }

    /// What the client asks for: the service's address, where there is somebody who knows it.
    pub(super) fn url(&self, far: bool) -> Result<String> {
        let (pod, _) = self
            .servers
            .get(usize::from(far))
            .context("there is no server there")?;
        let [near, other] = self.family.services();
        let address = match self.family {
            Family::Direct => pod.addresses().v4,
            _ => addr::service(if far { other } else { near }).v4,
        };
        Ok(format!("http://{address}:{PORT}{ALLOWED_PATH}"))
    }
}
