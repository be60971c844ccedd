//! One real agent with all of it, on a cgroup and a BPF file system of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use weft_lab::bpffs::BpfFs;
use weft_lab::cgroup::Cgroup;

use crate::usage::Usage;

/// Patience with its sync, seconds.
const WAIT: &str = "300";

/// Until the agent is in sync.
#[derive(serde::Serialize)]
pub(super) struct Synced {
    seconds: f64,
    usage: Usage,
}

struct Agent {
    child: Child,
    cgroup: Cgroup,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.cgroup.remove();
    }
}

/// Starts it as `node`, and waits until it says that all is in the kernel.
pub(super) fn sync(weft: &Path, control: SocketAddr, node: &str) -> Result<Synced> {
    let name = format!("weft-bench-scale-{}", std::process::id());
    let bpffs = BpfFs::mount(&name)?;
    let cgroup = Cgroup::create(&name)?;
    let run_dir = tempfile(&name)?;
    let started = Instant::now();
    let child = Command::new(weft)
        .args(["agent", "--insecure", "--log", "warn", "--envoy", "none"])
        .args(["--control", &control.to_string(), "--node", node])
        .args(["--metrics", "127.0.0.1:0"])
        .arg("--cgroup")
        .arg(cgroup.path())
        .arg("--bpffs")
        .arg(bpffs.path().join("weft"))
        .arg("--run-dir")
        .arg(&run_dir)
        .stdout(Stdio::null())
        .spawn()
        .context("starting the agent")?;
    let agent = Agent { child, cgroup };
    let status = Command::new(weft)
        .args(["status", "--wait", WAIT, "--run-dir"])
        .arg(&run_dir)
        .output()?;
    let synced = Synced {
        seconds: started.elapsed().as_secs_f64(),
        usage: Usage::of(agent.child.id())?,
    };
    let said = String::from_utf8_lossy(&status.stdout);
    // Pods of the node have no interfaces here: all else has to be in order.
    ensure!(
        status.status.success() || said.contains("synced"),
        "the agent is not in sync: {said}{}",
        String::from_utf8_lossy(&status.stderr)
    );
    eprintln!("{said}");
    drop(agent);
    let _ = std::fs::remove_dir_all(run_dir);
    Ok(synced)
}

fn tempfile(name: &str) -> Result<std::path::PathBuf> {
    let folder = std::env::temp_dir().join(format!("{name}-run"));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
