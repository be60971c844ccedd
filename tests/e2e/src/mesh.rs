//! A lab whose nodes run `weft up`.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;
use weft_lab::manifest::ServiceManifest;
use weft_lab::{
    DualStack, Lab, LabBuilder, Node, Pod, Process, ServeOptions, Weft, WeftOptions, addr,
};

use crate::Result;
use crate::wait::{LONG, eventually};

/// Port that the tests' services listen on.
pub const PORT: u16 = 80;
/// Port that the tests' servers listen on.
pub const TARGET: u16 = 8080;

/// A lab in which every node has its own `weft up`, all fed from the lab's manifests.
pub struct Mesh {
    // Dropped before the lab.
    servers: Vec<Process>,
    wefts: Vec<Weft>,
    /// The lab below.
    pub lab: Lab,
}

impl Mesh {
    /// Builds the lab, publishes what is in it, starts `weft up` on every node and waits until all are ready.
    ///
    /// # Errors
    /// When any of it fails.
    pub fn start(builder: LabBuilder) -> Result<Self> {
        Self::start_with(builder, &WeftOptions::default())
    }

    /// As [`Mesh::start`], with options for `weft up`.
    ///
    /// # Errors
    /// As there.
    pub fn start_with(builder: LabBuilder, options: &WeftOptions) -> Result<Self> {
        Self::start_each(builder, |_| options.clone())
    }

    /// As [`Mesh::start`], but nobody knows of the nodes called `outsiders` and of their pods: they are machines outside the cluster.
    ///
    /// # Errors
    /// As there.
    pub fn start_beside(
        builder: LabBuilder,
        outsiders: &[&str],
        options: &WeftOptions,
    ) -> Result<Self> {
        Self::start_on(builder, outsiders, |_| options.clone())
    }

    /// As [`Mesh::start`], with options for the `weft up` of each node.
    ///
    /// # Errors
    /// As there.
    pub fn start_each(builder: LabBuilder, options: impl Fn(&Node) -> WeftOptions) -> Result<Self> {
        Self::start_on(builder, &[], options)
    }

    fn start_on(
        builder: LabBuilder,
        outsiders: &[&str],
        options: impl Fn(&Node) -> WeftOptions,
    ) -> Result<Self> {
        let lab = builder.build()?;
        lab.publish()?;
        for name in outsiders {
            lab.manifests().remove(&format!("node-{name}"))?;
            for pod in lab.pods().iter().filter(|pod| pod.node() == *name) {
                lab.manifests().remove(&format!("pod-{}", pod.name()))?;
            }
        }
        let mut wefts = lab
            .nodes()
            .iter()
            .filter(|node| !outsiders.contains(&node.name()))
            .map(|node| Weft::up(node, lab.manifests(), options(node)))
            .collect::<Result<Vec<_>, _>>()?;
        for weft in &mut wefts {
            let ready = weft.wait_ready(LONG);
            ready.with_context(|| kernel_stacks(weft.process().pid()))?;
        }
        Ok(Self {
            servers: Vec::new(),
            wefts,
            lab,
        })
    }

    /// The `weft up` of this node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn weft(&mut self, node: &str) -> Result<&mut Weft> {
        let found = self
            .wefts
            .iter_mut()
            .find(|weft| weft.node().name() == node);
        found.with_context(|| format!("no node {node}"))
    }

    /// A pod of the lab.
    ///
    /// # Errors
    /// When there is no such pod.
    pub fn pod(&self, name: &str) -> Result<Pod> {
        Ok(self.lab.pod(name)?)
    }

    /// Starts a server on TCP and UDP [`TARGET`] in each of these pods, until the mesh is dropped.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn serve(&mut self, pods: &[&str]) -> Result {
        self.serve_with(pods, &ServeOptions::tcp(TARGET).and_udp(TARGET))
    }

    /// Starts a server in each of these pods, until the mesh is dropped.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn serve_with(&mut self, pods: &[&str], options: &ServeOptions) -> Result {
        for name in pods {
            self.servers.push(self.lab.pod(name)?.serve(options)?);
        }
        Ok(())
    }

    /// Writes a manifest file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn apply(&self, file: &str, text: &str) -> Result {
        Ok(self.lab.manifests().write(file, text)?)
    }

    /// Writes a Service and waits until every node has `ready` backends for it (for each of its ports).
    ///
    /// # Errors
    /// When it does not get there.
    pub fn service(&self, manifest: &ServiceManifest, ready: u64) -> Result {
        let value = manifest.value();
        let text = |pointer| {
            value
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        self.apply(&format!("service-{namespace}-{name}"), &manifest.yaml())?;
        self.wait_ready_backends(&format!("{namespace}/{name}"), ready)
    }

    /// Waits until every node has `ready` backends for each port and address family of `service` (`namespace/name`).
    ///
    /// # Errors
    /// When it does not get there.
    pub fn wait_ready_backends(&self, service: &str, ready: u64) -> Result {
        for weft in &self.wefts {
            eventually(LONG, || {
                let ports = ports_of(weft, service)?;
                ensure!(!ports.is_empty(), "no service {service}");
                for port in &ports {
                    let now = port.get("ready").and_then(Value::as_u64);
                    let families = port
                        .get("ids")
                        .and_then(Value::as_array)
                        .map_or(0, Vec::len);
                    let expected = ready * u64::try_from(families)?;
                    ensure!(now == Some(expected), "{expected} ready expected: {port}");
                }
                Ok(())
            })
            .with_context(|| format!("node {}", weft.node().name()))?;
        }
        Ok(())
    }

    /// Waits until a pod that has just come to `node` has its policy. Until the agent sees the pod nobody refuses what is sent to it, and
    /// from then on everything: an answer alone says nothing of the next one.
    ///
    /// # Errors
    /// When it does not get there.
    pub fn wait_judged(&mut self, pod: &str, node: &str) -> Result {
        let weft = self.weft(node)?;
        eventually(LONG, || {
            let rows = weft.cli_json(&["workloads", &format!("default/{pod}")])?;
            ensure!(
                rows.as_array().is_some_and(|rows| !rows.is_empty()),
                "{node} does not know {pod}"
            );
            let status = status(weft)?;
            ensure!(status["ready"] == true, "{}", status["reasons"]);
            Ok(())
        })
    }

    /// Waits until no node has `service` any more.
    ///
    /// # Errors
    /// When it stays.
    pub fn wait_gone(&self, service: &str) -> Result {
        for weft in &self.wefts {
            eventually(LONG, || {
                let ports = ports_of(weft, service)?;
                ensure!(ports.is_empty(), "still there: {ports:?}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Rows of a node's `weft services` for one service.
    ///
    /// # Errors
    /// When there is no such node, or its agent does not answer.
    pub fn services(&self, node: &str, service: &str) -> Result<Vec<Value>> {
        let weft = self.wefts.iter().find(|weft| weft.node().name() == node);
        ports_of(weft.with_context(|| format!("no node {node}"))?, service)
    }

    /// The status of a node's agent as JSON, ready or not.
    ///
    /// # Errors
    /// When there is none.
    pub fn status(&self, node: &str) -> Result<Value> {
        let weft = self.wefts.iter().find(|weft| weft.node().name() == node);
        status(weft.with_context(|| format!("no node {node}"))?)
    }
}

/// Where each thread of a process stands in the kernel: what a hang without a word waits for.
fn kernel_stacks(pid: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let stacks = threads.map(|thread| {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        format!("{}{}", read("comm"), read("stack"))
    });
    format!(
        "threads of {pid}:\n{}",
        stacks.collect::<Vec<_>>().join("\n")
    )
}

/// The status of an agent as JSON, ready or not.
///
/// # Errors
/// When it does not answer.
pub fn status(weft: &Weft) -> Result<Value> {
    let output = weft.cli(&["status", "-o", "json"])?;
    serde_json::from_str(&output.stdout)
        .map_err(|e| anyhow!("{e}: {}{}", output.stdout, output.stderr))
}

/// Rows of `weft services` for one service.
///
/// # Errors
/// When the agent does not answer.
pub fn ports_of(weft: &Weft, service: &str) -> Result<Vec<Value>> {
    let list: Vec<Value> = serde_json::from_value(weft.cli_json(&["services"])?)?;
    let wanted = |row: &Value| row.get("service").and_then(Value::as_str) == Some(service);
    Ok(list.into_iter().filter(wanted).collect())
}

/// The `index`th service address of the lab's plan, in both families, with [`PORT`].
#[must_use]
pub fn vips(index: u16) -> [SocketAddr; 2] {
    addr::service(index).sockets(PORT)
}

/// Both addresses of the `index`th service.
#[must_use]
pub fn vip_addresses(index: u16) -> [IpAddr; 2] {
    let DualStack { v4, v6 } = addr::service(index);
    [v4.into(), v6.into()]
}
