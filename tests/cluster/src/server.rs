//! etcd and kube-apiserver.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use weft_lab::{Lab, Node, Process};

use crate::Api;
use crate::pki::Pki;

/// How long the API server may take to come up.
const START: Duration = Duration::from_secs(120);
/// How the names of data directories begin.
const DATA: &str = "weft-kube-";
/// Its port.
const PORT: u16 = 6443;

/// Who asks the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// May do everything.
    Admin,
    /// May do what roles give to the user "weft".
    Weft,
}

impl User {
    const ALL: [(Self, &str, &str); 2] = [
        (Self::Admin, "admin", "system:masters"),
        (Self::Weft, "weft", ""),
    ];

    fn name(self) -> &'static str {
        let of = Self::ALL.iter().find(|(user, ..)| *user == self);
        of.map_or("", |(_, name, _)| name)
    }
}

/// What differs between control planes.
pub struct Options<'a> {
    /// Addresses of services.
    pub service_cidr: &'a str,
    /// Whether rights count. Without, everybody may do everything.
    pub rbac: bool,
    /// Asked while one waits for a server to come up: an error ends the wait.
    pub interrupted: &'a dyn Fn() -> Result<()>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            service_cidr: "10.96.0.0/16",
            rbac: true,
            interrupted: &|| Ok(()),
        }
    }
}

/// A running control plane; ends, with its data, when dropped.
pub struct ControlPlane {
    api: Api,
    kubeconfigs: PathBuf,
    server: Process,
    etcd: Process,
    node: Node,
    arguments: Vec<String>,
    url: String,
    ca: PathBuf,
    _dir: TempDir,
}

impl ControlPlane {
    /// Starts one on `node`, with programs from `bin`.
    pub fn start(lab: &Lab, node: &Node, bin: &Path, options: &Options) -> Result<Self> {
        let dir = in_memory()?;
        let address = node.addresses().v4;
        let users = User::ALL.map(|(_, name, group)| (name, group));
        let pki = Pki::make(dir.path(), address.into(), &users)?;
        let etcd = etcd(node, &dir.path().join("etcd"))?;
        let mut arguments = arguments(address, &pki, options);
        arguments.insert(0, bin.join("kube-apiserver").display().to_string());
        let server = spawn(node, &arguments)?;
        let url = format!("https://{address}:{PORT}");
        let ca = fs::read(&pki.ca).context("reading the CA certificate")?;
        let token = pki.by_user.first().context("an administrator")?;
        let api = Api::new(url.clone(), &ca, &token.1, node.netns().clone())?;
        let kubeconfigs = lab.dir().to_owned();
        for (user, token) in &pki.by_user {
            let path = kubeconfigs.join(format!("{user}.kubeconfig"));
            write_kubeconfig(&path, &url, &pki.ca, token, "default")?;
        }
        let mut plane = Self {
            api,
            kubeconfigs,
            server,
            etcd,
            node: node.clone(),
            arguments,
            url,
            ca: pki.ca,
            _dir: dir,
        };
        plane.wait_ready(options.interrupted)?;
        Ok(plane)
    }

    fn wait_ready(&mut self, interrupted: &dyn Fn() -> Result<()>) -> Result<()> {
        let deadline = Instant::now() + START;
        while !self.api.ready() {
            interrupted()?;
            for process in [&self.etcd, &self.server] {
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

    /// A client that may do everything.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// What a user reaches it with.
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.kubeconfigs.join(format!("{}.kubeconfig", user.name()))
    }

    /// What a service account reaches it with, as a pod of it would.
    pub fn account_kubeconfig(&self, namespace: &str, account: &str) -> Result<PathBuf> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer = self.api.create(&path, &request)?;
        let token = answer["status"]["token"].as_str().context("a token")?;
        let path = self
            .kubeconfigs
            .join(format!("{namespace}-{account}.kubeconfig"));
        write_kubeconfig(&path, &self.url, &self.ca, token, namespace)?;
        Ok(path)
    }

    /// Kills the API server. etcd keeps what it knew.
    pub fn kill_server(&mut self) {
        self.server.kill();
    }

    /// Starts the API server again.
    pub fn restart_server(&mut self) -> Result<()> {
        self.server = spawn(&self.node, &self.arguments)?;
        self.wait_ready(&|| Ok(()))
    }

    /// Removes an object from etcd behind the API server's back, by its key.
    pub fn forget(&self, key: &str) -> Result<()> {
        self.etcdctl(&format!("etcdctl del {key}"))
    }

    /// Forgets the history of all objects before now, as etcd does every few minutes.
    pub fn compact(&self) -> Result<()> {
        let script = "rev=$(etcdctl get --write-out=json / | sed 's/.*\"revision\":\\([0-9]*\\).*/\\1/') && etcdctl compact $rev";
        self.etcdctl(script)
    }

    fn etcdctl(&self, script: &str) -> Result<()> {
        let run = self.node.command("sh").args(["-ec", script]);
        let run = run.env("ETCDCTL_API", "3");
        run.run(Duration::from_secs(30))?.success()?;
        Ok(())
    }
}

fn spawn(node: &Node, words: &[String]) -> Result<Process> {
    let (program, arguments) = words.split_first().context("a program")?;
    Ok(node.command(program).args(arguments).spawn()?)
}

fn arguments(address: Ipv4Addr, pki: &Pki, options: &Options) -> Vec<String> {
    let mode = if options.rbac {
        "Node,RBAC"
    } else {
        "AlwaysAllow"
    };
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    vec![
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        format!("--secure-port={PORT}"),
        format!("--bind-address={address}"),
        format!("--advertise-address={address}"),
        format!("--authorization-mode={mode}"),
        "--anonymous-auth=false".to_owned(),
        format!("--service-cluster-ip-range={}", options.service_cidr),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        file("tls-cert-file", &pki.certificate),
        file("tls-private-key-file", &pki.key),
        file("service-account-key-file", &pki.accounts_public),
        file("service-account-signing-key-file", &pki.accounts),
        file("token-auth-file", &pki.tokens),
    ]
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
        .args(["--name=test", "--log-level=warn", "--data-dir"])
        .arg(data)
        .args(["--listen-client-urls=http://127.0.0.1:2379"])
        .args(["--advertise-client-urls=http://127.0.0.1:2379"])
        .args(["--listen-peer-urls=http://127.0.0.1:2380"])
        .args(["--initial-advertise-peer-urls=http://127.0.0.1:2380"])
        .args(["--initial-cluster=test=http://127.0.0.1:2380"])
        .spawn()?;
    Ok(etcd)
}

/// As JSON, which is YAML too.
fn write_kubeconfig(path: &Path, url: &str, ca: &Path, token: &str, namespace: &str) -> Result<()> {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": ca}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
    });
    fs::write(path, config.to_string()).with_context(|| format!("writing {}", path.display()))
}
