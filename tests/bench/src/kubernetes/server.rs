//! etcd and kube-apiserver.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use weft_lab::{Lab, Node, Process};

use super::Api;
use super::pki::Pki;
use crate::interrupt;
use crate::objects;
use crate::plan::{Plan, SERVICE_CIDR};

/// How long the API server may take to come up.
const START: Duration = Duration::from_secs(60);
/// How the names of data directories begin.
const DATA: &str = "weft-bench-";
const SERVICES: &str = "/api/v1/namespaces/bench/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/bench/endpointslices";

/// A running control plane; ends, with its data, when dropped.
pub struct ControlPlane {
    api: Api,
    kubeconfig: PathBuf,
    _processes: [Process; 2],
    _dir: TempDir,
}

impl ControlPlane {
    /// Starts one on `node`, with programs from `bin`.
    pub fn start(lab: &Lab, node: &Node, bin: &Path) -> Result<Self> {
        let dir = in_memory()?;
        let address = node.addresses().v4;
        let pki = Pki::make(dir.path(), address.into())?;
        let etcd = etcd(node, &dir.path().join("etcd"))?;
        let server = node
            .command(bin.join("kube-apiserver"))
            .args(["--etcd-servers=http://127.0.0.1:2379", "--secure-port=6443"])
            .args(["--bind-address", &address.to_string()])
            .args(["--advertise-address", &address.to_string()])
            .args(["--authorization-mode=AlwaysAllow", "--anonymous-auth=false"])
            .args(["--service-cluster-ip-range", SERVICE_CIDR])
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg("--tls-cert-file")
            .arg(&pki.certificate)
            .arg("--tls-private-key-file")
            .arg(&pki.key)
            .arg("--service-account-key-file")
            .arg(&pki.accounts_public)
            .arg("--service-account-signing-key-file")
            .arg(&pki.accounts)
            .arg("--token-auth-file")
            .arg(&pki.tokens)
            .spawn()?;
        let url = format!("https://{address}:6443");
        let ca = fs::read(&pki.ca).context("reading the CA certificate")?;
        let api = Api::new(url.clone(), &ca, &pki.token, node.netns().clone())?;
        let kubeconfig = lab.dir().join("kubeconfig");
        write_kubeconfig(&kubeconfig, &url, &pki)?;
        let mut plane = Self {
            api,
            kubeconfig,
            _processes: [etcd, server],
            _dir: dir,
        };
        plane.wait_ready()?;
        Ok(plane)
    }

    fn wait_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START;
        while !self.api.ready() {
            interrupt::check()?;
            for process in &mut self._processes {
                ensure!(
                    process.is_running() && Instant::now() < deadline,
                    "the control plane does not come up; {} said:\n{}",
                    process.command(),
                    process.stderr()
                );
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// What kube-proxy reaches it with.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Writes the plan's services and endpoints, and `nodes`.
    pub fn load(&self, plan: &Plan, nodes: &[Node]) -> Result<()> {
        self.api
            .create("/api/v1/namespaces", &objects::namespace())?;
        for node in nodes {
            let object = objects::node(node.name(), &[node.addresses().v4.into()]);
            self.api.create("/api/v1/nodes", &object)?;
        }
        self.api.create(SERVICES, &objects::moving_service(plan))?;
        self.api.create(SLICES, &objects::moving_slice(plan, 0))?;
        self.api.create_all(SERVICES, plan.services, |index| {
            objects::service(plan, index)
        })?;
        self.api
            .create_all(SLICES, plan.services, |index| objects::slice(plan, index))
    }

    /// Moves the service that moves to its backend after `changes` changes.
    pub fn move_service(&self, plan: &Plan, changes: u32) -> Result<()> {
        let path = format!("{SLICES}/{}", objects::MOVING);
        self.api
            .replace(&path, &objects::moving_slice(plan, changes))
    }
}

/// A directory in memory: etcd syncs every write, and the disk is not what is
/// measured here. Removes those of runs that were killed.
fn in_memory() -> Result<TempDir> {
    let shared = Path::new("/dev/shm");
    let root = if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    };
    for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
        if entry
            .file_name()
            .to_str()
            .and_then(owner)
            .is_some_and(|pid| !runs(pid))
        {
            // Another run may be removing it as well.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("{DATA}{}-", std::process::id());
    tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(root)
        .context("making a directory")
}

/// The process id in the name of a directory that [`in_memory`] made.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(DATA)?.split_once('-')?.0.parse().ok()
}

fn runs(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn etcd(node: &Node, data: &Path) -> Result<Process> {
    let etcd = node
        .command("etcd")
        .args(["--name=bench", "--log-level=warn", "--data-dir"])
        .arg(data)
        .args(["--listen-client-urls=http://127.0.0.1:2379"])
        .args(["--advertise-client-urls=http://127.0.0.1:2379"])
        .args(["--listen-peer-urls=http://127.0.0.1:2380"])
        .args(["--initial-advertise-peer-urls=http://127.0.0.1:2380"])
        .args(["--initial-cluster=bench=http://127.0.0.1:2380"])
        .spawn()?;
    Ok(etcd)
}

/// As JSON, which is YAML too.
fn write_kubeconfig(path: &Path, url: &str, pki: &Pki) -> Result<()> {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": url, "certificate-authority": pki.ca}}],
        "users": [{"name": "bench", "user": {"token": pki.token}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    });
    fs::write(path, config.to_string()).with_context(|| format!("writing {}", path.display()))
}
