//! A node of the lab.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::addr::{self, DualStack};
use crate::cgroup::Cgroup;
use crate::manifest::NodeManifest;
use crate::netns::Netns;
use crate::{Launch, Place, Result, topology};

/// A node: a network namespace with forwarding, a cgroup above those of its pods, and the agent's directories. Cheap
/// to clone.
#[derive(Debug, Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    index: u8,
    zone: Option<String>,
    netns: Netns,
    cgroup: Cgroup,
    host: Place,
    agent: Place,
    control: Place,
    bpffs: PathBuf,
    run_dir: PathBuf,
}

/// What [`Node::new`] is made from.
pub(crate) struct NodeParts<'a> {
    pub(crate) name: &'a str,
    pub(crate) index: u8,
    pub(crate) zone: Option<String>,
    pub(crate) netns: Netns,
    pub(crate) cgroup: Cgroup,
    pub(crate) lab_dir: &'a Path,
}

impl Node {
    pub(crate) fn new(parts: NodeParts<'_>) -> Result<Self> {
        let NodeParts {
            name,
            index,
            zone,
            netns,
            cgroup,
            lab_dir,
        } = parts;
        let place = |kind: &str| -> Result<Place> {
            Ok(Place {
                netns: Some(netns.clone()),
                cgroup: cgroup.child(kind)?,
                logs: lab_dir.join("logs"),
                label: name.to_owned(),
            })
        };
        let inner = Inner {
            name: name.to_owned(),
            index,
            zone,
            host: place("host")?,
            agent: place("agent")?,
            control: place("control")?,
            bpffs: lab_dir.join(crate::teardown::BPFFS).join(name),
            run_dir: lab_dir.join("run").join(name),
            netns,
            cgroup,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its number, from 1: the last part of its addresses.
    pub fn index(&self) -> u8 {
        self.inner.index
    }

    /// Its zone, if it was given one.
    pub fn zone(&self) -> Option<&str> {
        self.inner.zone.as_deref()
    }

    /// Its addresses on the fabric.
    pub fn addresses(&self) -> DualStack {
        addr::node(self.inner.index)
    }

    /// Its network namespace.
    pub fn netns(&self) -> &Netns {
        &self.inner.netns
    }

    /// The cgroup that holds all its processes and pods: what the agent attaches to.
    pub fn cgroup(&self) -> &Path {
        self.inner.cgroup.path()
    }

    /// The agent's directory in the lab's BPF file system.
    pub fn bpffs(&self) -> &Path {
        &self.inner.bpffs
    }

    /// The agent's run directory.
    pub fn run_dir(&self) -> &Path {
        &self.inner.run_dir
    }

    /// Name of the interface to the other nodes.
    pub fn uplink(&self) -> &'static str {
        topology::UPLINK
    }

    /// Where the node's own processes run: its network namespace, and a cgroup below [`Node::cgroup`].
    pub fn host(&self) -> &Place {
        &self.inner.host
    }

    /// Where the agent runs: as [`Node::host`], in a cgroup of its own so that its CPU time can be read (`cpu.stat`).
    pub fn agent_place(&self) -> &Place {
        &self.inner.agent
    }

    /// Where a control plane runs: as [`Node::host`], in a cgroup of its own.
    pub fn control_place(&self) -> &Place {
        &self.inner.control
    }

    /// Prepares to run `program` in the node's host namespace.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Launch {
        self.inner.host.command(program)
    }

    /// The Kubernetes object that describes it.
    pub fn manifest(&self) -> NodeManifest {
        let manifest = NodeManifest::new(&self.inner.name, self.addresses().both());
        match &self.inner.zone {
            Some(zone) => manifest.zone(zone),
            None => manifest,
        }
    }

    pub(crate) fn cgroup_handle(&self) -> &Cgroup {
        &self.inner.cgroup
    }
}
