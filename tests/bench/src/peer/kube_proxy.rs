//! kube-proxy, real, as a Kubernetes distribution runs it.

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::json;
use weft_lab::{Lab, Node, Process};

use super::{Buckets, Kind, Proxy};
use crate::kubernetes::ControlPlane;
use crate::plan::{CLUSTER_CIDR, Plan};
use crate::usage::Usage;

/// kube-proxy on one node.
pub struct KubeProxy {
    program: PathBuf,
    config: PathBuf,
    node: Node,
    plan: Plan,
    plane: Rc<ControlPlane>,
    process: Option<Process>,
}

impl KubeProxy {
    /// Writes its configuration: everything at its default but where the API server
    /// is, who it is, and that conntrack's machine-wide limit is left alone.
    pub fn new(
        kind: Kind,
        program: PathBuf,
        lab: &Lab,
        node: &Node,
        plan: Plan,
        plane: Rc<ControlPlane>,
    ) -> Result<Self> {
        let config = lab.dir().join(format!("kube-proxy-{}.json", node.name()));
        let settings = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": kind.slug(),
            "clusterCIDR": CLUSTER_CIDR,
            "clientConnection": {"kubeconfig": plane.kubeconfig()},
            "hostnameOverride": node.name(),
            "conntrack": {"maxPerCore": 0, "min": 0},
        });
        std::fs::write(&config, settings.to_string())
            .with_context(|| format!("writing {}", config.display()))?;
        Ok(Self {
            program,
            config,
            node: node.clone(),
            plan,
            plane,
            process: None,
        })
    }

    fn process(&self) -> Result<&Process> {
        self.process
            .as_ref()
            .context("kube-proxy has not been started")
    }
}

impl Proxy for KubeProxy {
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        let command = self.node.agent_place().command(&self.program);
        self.process = Some(command.arg("--config").arg(&self.config).spawn()?);
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        let process = self
            .process
            .as_mut()
            .context("kube-proxy has not been started")?;
        ensure!(
            process.is_running(),
            "kube-proxy has ended:\n{}",
            process.stderr()
        );
        Ok(())
    }

    fn ready(&mut self) -> Option<bool> {
        None
    }

    fn move_service(&mut self, changes: u32) -> Result<()> {
        self.plane.move_service(&self.plan, changes)
    }

    fn usage(&self) -> Result<Usage> {
        Usage::of(self.process()?.pid())
    }

    fn applied(&self) -> Option<Buckets> {
        None
    }

    fn freeze(&self, frozen: bool) {
        if let Some(process) = &self.process {
            process.signal(if frozen { Signal::STOP } else { Signal::CONT });
        }
    }
}
