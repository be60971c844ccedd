//! `weft` goes in order: it stops, and leaves nothing behind when it is told to.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::wait::{LONG, eventually};
use weft_e2e::{Mesh, Result};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{GetOptions, Lab, Output, PodSpec, tools, weft};

const WITHIN: Duration = Duration::from_secs(30);

fn assert_fails(output: &Output, word: &str) {
    let said = &output.stderr;
    assert_eq!(output.status.code(), Some(1), "{}: {said}", output.command);
    assert!(said.contains(word), "{word:?} in: {said}");
}

fn web() -> ServiceManifest {
    ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "web")
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn cleanup_leaves_nothing() -> Result {
    let lab = Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("a", "n1").label("app", "web"));
    let mut mesh = Mesh::start(lab)?;
    mesh.serve(&["a"])?;
    mesh.service(&web(), 1)?;
    mesh.weft("n1")?.wait_ready(LONG)?;
    let node = mesh.lab.node("n1")?;
    let client = mesh.pod("client")?;
    let reaches = || -> Result<bool> {
        let options = GetOptions::tcp(1).timeout(Duration::from_millis(500));
        Ok(client.get(vips(0)[0], &options)?.iter().all(|a| a.ok()))
    };
    // A new pod is refused until its policy is in the kernel.
    eventually(LONG, || {
        ensure!(reaches()?, "refused");
        Ok(())
    })?;

    // Not under the feet of a running agent.
    let clean = || -> Result<Output> {
        let launch = node
            .command(tools::weft()?)
            .arg("cleanup")
            .arg("--bpffs")
            .arg(node.bpffs());
        let launch = launch
            .arg("--run-dir")
            .arg(node.run_dir())
            .arg("--cgroup")
            .arg(node.cgroup());
        Ok(launch.run(WITHIN)?)
    };
    assert_fails(&clean()?, "--force");
    assert!(reaches()?);

    // After a crash: everything goes.
    mesh.weft("n1")?.kill9();
    assert!(reaches()?);
    assert!(!files_below(node.bpffs()).is_empty());
    clean()?.success()?;
    assert_eq!(files_below(node.bpffs()), Vec::<PathBuf>::new());
    assert!(!reaches()?, "the service address is still translated");
    // Twice is fine.
    clean()?.success()?;
    weft::cleanup(&node)?;

    // And back again.
    mesh.weft("n1")?.restart()?;
    mesh.weft("n1")?.wait_ready(LONG)?;
    mesh.wait_ready_backends("default/web", 1)?;
    assert!(reaches()?);
    Ok(())
}

#[test]
fn stopping_is_orderly_and_leaves_the_kernel_side() -> Result {
    let lab = Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("a", "n1").label("app", "web"));
    let mut mesh = Mesh::start(lab)?;
    mesh.serve(&["a"])?;
    mesh.service(&web(), 1)?;
    mesh.weft("n1")?.wait_ready(LONG)?;
    // stop() wants exit status 0.
    mesh.weft("n1")?.stop()?;
    let attempts = mesh.pod("client")?.get(vips(0)[0], &GetOptions::tcp(5))?;
    assert!(attempts.iter().all(|a| a.ok()), "{attempts:?}");
    let output = mesh.weft("n1")?.cli(&["status"])?;
    assert_fails(&output, "agent");
    Ok(())
}
