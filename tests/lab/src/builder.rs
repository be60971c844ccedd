//! Describing a lab before it is made.

use std::path::{Path, PathBuf};

use crate::{Lab, LabError, PodSpec, Result, manifest};

/// Says what a [`Lab`] is to hold.
#[derive(Debug, Default)]
pub struct LabBuilder {
    nodes: Vec<(String, Option<String>)>,
    pods: Vec<PodSpec>,
    /// Folders whose manifests the lab starts with.
    sources: Vec<PathBuf>,
}

impl LabBuilder {
    /// Adds a node.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.nodes.push((name.into(), None));
        self
    }

    /// Adds a node in a zone.
    pub fn node_in_zone(mut self, name: impl Into<String>, zone: impl Into<String>) -> Self {
        self.nodes.push((name.into(), Some(zone.into())));
        self
    }

    /// Adds a pod.
    pub fn pod(mut self, spec: PodSpec) -> Self {
        self.pods.push(spec);
        self
    }

    /// Adds the nodes and pods that a folder of manifests describes, with their addresses, and takes over its files
    /// when built.
    ///
    /// # Errors
    /// When a file cannot be read or parsed, or its addresses are not those of the plan in [`addr`].
    pub fn manifests(mut self, dir: &Path) -> Result<Self> {
        let (nodes, pods) = manifest::read::read(dir)?;
        for node in nodes {
            self.nodes.push((node.name, node.zone));
        }
        self.pods.extend(pods);
        self.sources.push(dir.to_owned());
        Ok(self)
    }

    /// Makes it all.
    ///
    /// # Errors
    /// Without root or cgroup v2, for bad names, and when the system refuses a step; what was made is removed again.
    pub fn build(self) -> Result<Lab> {
        if !rustix::process::geteuid().is_root() {
            return Err(LabError::NotRoot);
        }
        // Built into a `Lab` from the first step on, so that its `Drop` cleans up when a later step fails.
        let mut lab = Lab::empty()?;
        for (name, zone) in self.nodes {
            lab.add_node(&name, zone)?;
        }
        for spec in self.pods {
            lab.add_pod(spec)?;
        }
        for source in self.sources {
            lab.manifests().copy_from(&source)?;
        }
        Ok(lab)
    }
}
