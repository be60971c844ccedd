//! Two nodes with agents and Envoys, one control plane with a CA, and somebody who watches the wire.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::http::{serve, with_envoy};
use weft_e2e::joined::{Joined, pods};
use weft_e2e::mesh::{TARGET, vips};
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};
use weft_lab::{Lab, Pod, Process, WeftOptions};

/// What must not be seen between nodes.
pub(crate) const MARKER: &str = "weft-plain-text-marker";

/// Pods `client` and `stranger` on n1, each with a service account of its own, and servers `near` on n1 and `far` on n2.
pub(crate) struct Town {
    // Dropped before the lab.
    wire: Process,
    _servers: Vec<Process>,
    pub(crate) joined: Joined,
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

/// Of namespace default, or of what `more` selects there.
pub(crate) fn peer_authentication(mode: &str, more: &str) -> String {
    format!(
        "apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {{name: mtls, namespace: default}}
spec:
  mtls: {{mode: {mode}}}
{more}"
    )
}

impl Deref for Town {
    type Target = Joined;

    fn deref(&self) -> &Joined {
        &self.joined
    }
}

impl Town {
    pub(crate) fn start() -> Result<Self> {
        Self::start_with(WeftOptions::default())
    }

    /// With options for the control plane.
    pub(crate) fn start_with(options: WeftOptions) -> Result<Self> {
        let pods = pods(&[
            ("client", "n1"),
            ("stranger", "n1"),
            ("near", "n1"),
            ("far", "n2"),
        ]);
        let joined = Joined::start(pods, options, &with_envoy())?;
        let mut servers = Vec::new();
        for name in ["near", "far"] {
            for port in [TARGET, TARGET + 1] {
                servers.push(serve(&joined.lab, name, port)?);
            }
        }
        let wire = watch(&joined.lab)?;
        Ok(Self {
            wire,
            _servers: servers,
            joined,
        })
    }

    /// What has gone over the wire since the last call.
    pub(crate) fn wire(&mut self) -> Result<Value> {
        // What was sent last has arrived by then.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let before = self.wire.stdout().lines().count();
        self.wire.signal(rustix::process::Signal::USR1);
        eventually(LONG, || {
            let said = self.wire.stdout();
            let line = said.lines().nth(before).context("nothing said yet")?;
            Ok(serde_json::from_str(line)?)
        })
    }

    /// URL of a path at a pod.
    pub(crate) fn url(&self, pod: &str, family: u8, path: &str) -> Result<String> {
        let pod = self.pod(pod)?;
        let socket = match family {
            4 => pod.socket_v4(TARGET),
            _ => pod.socket_v6(TARGET),
        };
        Ok(format!("http://{socket}{path}"))
    }

    /// The pod's own address and its service's, over both families.
    pub(crate) fn ways(&self, pod: &str, service: u16, path: &str) -> Result<Vec<String>> {
        let pod = self.pod(pod)?.addresses().sockets(TARGET);
        let all = pod.into_iter().chain(vips(service));
        Ok(all.map(|socket| format!("http://{socket}{path}")).collect())
    }

    /// A connection that does nothing, and says when it is closed.
    pub(crate) fn idle(&self, client: &Pod, server: &str) -> Result<Process> {
        let script = "import socket,sys
s=socket.create_connection((sys.argv[1],int(sys.argv[2])))
print('ready',flush=True)
try: s.recv(1)
except OSError: pass
print('closed',flush=True)";
        let to = self.pod(server)?.addresses().v4.to_string();
        let port = TARGET.to_string();
        let mut idle = client
            .command("/usr/bin/python3")
            .args(["-c", script, &to, &port])
            .spawn()?;
        idle.wait_for_line("ready", LONG)?;
        Ok(idle)
    }

    pub(crate) fn cli(&self, node: &str, args: &[&str]) -> Result<String> {
        let output = self.agent(node)?.cli(args)?;
        Ok(format!("{}{}", output.stdout, output.stderr))
    }

    /// The folder of the control plane's CA.
    pub(crate) fn ca(&self) -> Result<PathBuf> {
        Ok(self.node("n2")?.run_dir().join("control-ca"))
    }

    /// Both Envoys have taken all that they were sent.
    pub(crate) fn nothing_refused(&self) -> Result {
        for node in self.lab.nodes() {
            let admin = node.run_dir().join("envoy/admin.sock");
            let curl = node.command("curl").args(["-sS", "-g", "--unix-socket"]);
            let curl = curl.arg(admin).arg("http://envoy/stats?filter=update_");
            let stats = curl.run(LONG)?.success()?.stdout;
            for line in stats.lines().filter(|l| l.contains("update_rejected")) {
                ensure!(line.ends_with(": 0"), "{}: {line}", node.name());
            }
        }
        Ok(())
    }
}

fn watch(lab: &Lab) -> Result<Process> {
    let node = lab.node("n1")?;
    let mut pods = Vec::new();
    for name in ["client", "stranger", "near", "far"] {
        let own = lab.pod(name)?.addresses();
        pods.extend([own.v4.to_string(), own.v6.to_string()]);
    }
    let watcher = node.command("/usr/bin/python3").arg(fixture("wire.py"));
    let mut watcher = watcher
        .args([node.uplink(), MARKER, &pods.join(",")])
        .spawn()?;
    watcher.wait_for_line("ready", LONG)?;
    Ok(watcher)
}
