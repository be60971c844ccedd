//! The lab itself: building it, adding and removing pods, taking it down.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cgroup::Cgroup;
use crate::manifest::Manifests;
use crate::netns::Netns;
use crate::node::NodeParts;
use crate::registry::{Pods, bad_name, check_name, next_node, unknown};
use crate::{
    LabBuilder, LabError, Node, Place, Pod, PodSpec, Result, addr, bpffs, manifest, owner,
    teardown, topology,
};

/// Set to keep a lab for inspection instead of removing it when it is dropped; the next lab sweeps it away.
const KEEP_VARIABLE: &str = "WEFT_LAB_KEEP";
/// How much of each log is shown when a test panics.
const LINES_ON_PANIC: usize = 30;

/// A running lab. Dropping it ends its processes and removes everything it made.
#[derive(Debug)]
pub struct Lab {
    name: String,
    dir: PathBuf,
    cgroup: Cgroup,
    fabric: Netns,
    nodes: Vec<Node>,
    pods: Mutex<Pods>,
    manifests: Manifests,
    plain: Place,
    removed: bool,
}

impl Lab {
    /// Starts the description of a lab.
    pub fn builder() -> LabBuilder {
        LabBuilder::default()
    }

    pub(crate) fn empty() -> Result<Self> {
        let lock = owner::Lock::take()?;
        teardown::sweep()?;
        let name = random_name();
        let dir = teardown::lab_dir(&name);
        fs::create_dir(&dir).map_err(LabError::io("create", &dir))?;
        owner::record(&dir)?;
        let made = Self::make_base(&name, &dir);
        drop(lock);
        if made.is_err() {
            // The error that stopped us says more than one met while cleaning up.
            let _ = teardown::remove(&name);
        }
        made
    }

    fn make_base(name: &str, dir: &Path) -> Result<Self> {
        for part in ["logs", "run", "manifests"] {
            let path = dir.join(part);
            fs::create_dir(&path).map_err(LabError::io("create", path))?;
        }
        bpffs::mount(&dir.join(teardown::BPFFS))?;
        let cgroup = Cgroup::create(name)?;
        let plain = Place {
            netns: None,
            cgroup: cgroup.child("plain")?,
            logs: dir.join("logs"),
            label: "plain".into(),
        };
        Ok(Self {
            fabric: topology::make_fabric(&format!("{name}-fabric"))?,
            name: name.to_owned(),
            dir: dir.to_owned(),
            manifests: Manifests::new(dir.join("manifests")),
            cgroup,
            plain,
            nodes: Vec::new(),
            pods: Mutex::default(),
            removed: false,
        })
    }

    pub(crate) fn add_node(&mut self, name: &str, zone: Option<String>) -> Result<()> {
        check_name("node", name)?;
        if self.nodes.iter().any(|node| node.name() == name) {
            return Err(bad_name("node", name, "taken already"));
        }
        let index = next_node(self.nodes.len())?;
        let netns = topology::make_node(&format!("{}-n-{name}", self.name), index, &self.fabric)?;
        for other in &self.nodes {
            topology::route_to_pods(&netns, other.index())?;
            topology::route_to_pods(other.netns(), index)?;
        }
        let node = Node::new(NodeParts {
            name,
            index,
            zone,
            netns,
            cgroup: self.cgroup.child(name)?,
            lab_dir: &self.dir,
        })?;
        for dir in [node.bpffs(), node.run_dir()] {
            fs::create_dir(dir).map_err(LabError::io("create", dir))?;
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a pod to the running lab. Its manifest is not written: see [`Lab::publish`].
    ///
    /// # Errors
    /// For an unknown node, a bad or taken name, a full node, and when the system refuses a step.
    pub fn add_pod(&self, spec: PodSpec) -> Result<Pod> {
        check_name("pod", &spec.name)?;
        let node = self.node(&spec.node)?;
        let mut pods = self.lock_pods();
        if pods.by_name.contains_key(&spec.name) {
            return Err(bad_name("pod", &spec.name, "taken already"));
        }
        let index = pods.free_index(&spec, &node)?;
        let addresses = addr::pod(node.index(), index);
        let host_link = format!("veth{index}");
        let netns_name = format!("{}-p-{}", self.name, spec.name);
        let netns = topology::make_pod(
            &netns_name,
            node.netns(),
            node.index(),
            addresses,
            &host_link,
        )?;
        let place = Place {
            netns: Some(netns.clone()),
            cgroup: node.cgroup_handle().child(&format!("pod-{}", spec.name))?,
            logs: self.dir.join("logs"),
            label: spec.name.clone(),
        };
        let pod = Pod::new(spec, addresses, host_link, netns, place);
        pods.taken.insert((node.index(), index));
        pods.by_name.insert(pod.name().to_owned(), pod.clone());
        Ok(pod)
    }

    /// Kills a pod's processes and removes it; its manifest stays.
    ///
    /// # Errors
    /// For an unknown pod, and when the system refuses a step.
    pub fn remove_pod(&self, name: &str) -> Result<()> {
        let pod = self.pod(name)?;
        let node = self.node(pod.node())?;
        pod.place().cgroup.remove()?;
        // Removed by hand: the namespace, and with it the link, may live on for a moment after its name is gone.
        node.netns()
            .ip(&format!("link del {}\n", pod.host_link()))?;
        pod.netns().remove()?;
        let mut pods = self.lock_pods();
        pods.by_name.remove(name);
        pods.taken
            .retain(|(node, index)| addr::pod(*node, *index) != pod.addresses());
        Ok(())
    }

    /// Its unique name, `wl` and eight hexadecimal digits.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directory: logs, manifests, run directories, BPF file system.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The node of that name.
    ///
    /// # Errors
    /// [`LabError::Unknown`].
    pub fn node(&self, name: &str) -> Result<Node> {
        let found = self.nodes.iter().find(|node| node.name() == name);
        found.cloned().ok_or_else(|| unknown("node", name))
    }

    /// All nodes, in the order they were added.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The pod of that name.
    ///
    /// # Errors
    /// [`LabError::Unknown`].
    pub fn pod(&self, name: &str) -> Result<Pod> {
        let pods = self.lock_pods();
        pods.by_name
            .get(name)
            .cloned()
            .ok_or_else(|| unknown("pod", name))
    }

    /// All pods, by name.
    pub fn pods(&self) -> Vec<Pod> {
        self.lock_pods().by_name.values().cloned().collect()
    }

    /// The folder of manifests that the lab's control planes watch.
    pub fn manifests(&self) -> &Manifests {
        &self.manifests
    }

    /// Where processes run that belong to no node: the machine's own network namespace, a cgroup of the lab.
    pub fn plain(&self) -> &Place {
        &self.plain
    }

    /// Writes Namespace, Node and Pod manifests for what the lab holds now, one file per object.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn publish(&self) -> Result<()> {
        let pods = self.pods();
        let namespaces: BTreeSet<&str> = pods.iter().map(Pod::namespace).collect();
        for namespace in namespaces {
            let text = manifest::namespace(namespace);
            self.manifests
                .write(&format!("namespace-{namespace}"), &text)?;
        }
        for node in &self.nodes {
            let file = format!("node-{}", node.name());
            self.manifests.write(&file, &node.manifest().yaml())?;
        }
        for pod in &pods {
            let file = format!("pod-{}", pod.name());
            self.manifests.write(&file, &pod.manifest().yaml())?;
        }
        Ok(())
    }

    /// Takes the lab down and says whether all of it could be removed; dropping it only prints what could not.
    ///
    /// # Errors
    /// The first step that failed; the others were still made.
    pub fn close(mut self) -> Result<()> {
        self.removed = true;
        teardown::remove(&self.name)
    }

    fn lock_pods(&self) -> MutexGuard<'_, Pods> {
        // A panicking test must still be able to take the lab down.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print_logs(&self) {
        let Ok(entries) = fs::read_dir(self.dir.join("logs")) else {
            return;
        };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            let start = lines.len().saturating_sub(LINES_ON_PANIC);
            for (number, line) in lines.iter().enumerate().skip(start) {
                if number == start {
                    eprintln!("---- {}", path.display());
                }
                eprintln!("{line}");
            }
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.removed {
            return;
        }
        if std::thread::panicking() {
            self.print_logs();
        }
        if std::env::var_os(KEEP_VARIABLE).is_some() {
            eprintln!("weft-lab: {} kept in {}", self.name, self.dir.display());
            return;
        }
        if let Err(error) = teardown::remove(&self.name) {
            eprintln!("weft-lab: {} not removed completely: {error}", self.name);
        }
    }
}

/// The standard library's hash seed is random enough for a name that only has to differ from its neighbours.
fn random_name() -> String {
    format!(
        "wl{:08x}",
        RandomState::new().hash_one(std::process::id()) >> 32
    )
}
